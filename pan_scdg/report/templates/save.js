// A copy of the page with the reader's marks: the same script and style, so that the page's policy holds for it.

function savePage() {
  const url = URL.createObjectURL(new Blob([serialisePage()], { type: "text/html" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `${find("#title").textContent.replace(/[^\p{L}\p{N}]+/gu, "-") || "report"}.html`;
  link.click();
  URL.revokeObjectURL(url);
  unsaved = false;
}

/** Return the page as it was before the script changed it, with the marks, and without names if they are hidden. */
function serialisePage() {
  const copy = document.documentElement.cloneNode(true);
  copy.removeAttribute("class");
  for (const element of findAll(".slot, .review", copy)) element.replaceChildren();
  for (const element of findAll(".result label, .dismissal, .by-reader, .tooltip", copy)) element.remove();
  for (const button of findAll(".list thead [role=button]", copy)) button.replaceWith(...button.childNodes);
  for (const header of findAll("[aria-sort]", copy)) header.removeAttribute("aria-sort");
  const changed = ["open", "chosen", "excluded", "dismissed"];
  for (const element of findAll(changed.map((name) => `.${name}`).join(), copy)) element.classList.remove(...changed);
  for (const body of findAll(".list tbody", copy)) {
    const rank = (row) => row.dataset.rank ?? row.dataset.number;
    body.append(...[...body.rows].sort((a, b) => rank(a) - rank(b)));
    for (const row of body.rows) row.hidden = false;
  }
  find("body", copy).removeAttribute("class");
  find("dialog", copy).removeAttribute("open");
  find("#state", copy).textContent = JSON.stringify(state).replace(/</g, "\\u003c");
  // A parser would turn carriage returns in the texts into line feeds.
  return `<!doctype html>\n${copy.outerHTML.replace(/\r/g, "&#13;")}`;
}
