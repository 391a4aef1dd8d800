// The table of pairs: sort, filter, marks, and numbers that follow the filters.

const ORDER = ["likely", "unclear", "no sign"];

function startOverview() {
  for (const row of listRows()) find(".review", row).append(makeReview(row.dataset.number));
  for (const header of findAll(".pairs th[data-key]")) {
    // not a button: on paper browsers leave those out of a header that is repeated
    const button = document.createElement("span");
    button.setAttribute("role", "button");
    button.tabIndex = 0;
    button.append(...header.childNodes);
    header.append(button);
    header.addEventListener("click", () => sortRows(header));
    button.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sortRows(header);
    });
  }
  find("#search").addEventListener("input", filterRows);
  find("#search").addEventListener("submit", (event) => event.preventDefault());
  filterRows();
}

const listRows = () => findAll(".pairs tbody tr");

function readKey(row, key) {
  const passages = listPassages(row).filter((passage) => !passage.excluded);
  switch (key) {
    case "number": return Number(row.dataset.number);
    case "score": return row.dataset.score === "" ? -Infinity : Number(row.dataset.score);
    case "decision": return ORDER.indexOf(row.dataset.decision);
    case "passages": return passages.length;
    case "share": return passages.reduce((sum, passage) => sum + passage.length, 0) / row.dataset.length;
    case "review": return state.reviews[row.dataset.number] || "–";
    default: return find(`.${key}`, row).textContent;
  }
}

function sortRows(header) {
  const key = header.dataset.key;
  const before = header.getAttribute("aria-sort");
  const bestFirst = ["score", "passages", "share"].includes(key); // the first click shows the largest
  const descending = before ? before === "ascending" : bestFirst;
  for (const other of findAll(".pairs th[data-key]")) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const keyed = listRows().map((row) => [readKey(row, key), row]);
  const compare = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true }));
  keyed.sort(([a], [b]) => (descending ? compare(b, a) : compare(a, b)));
  find(".pairs tbody").append(...keyed.map(([, row]) => row));
}

function filterRows() {
  const form = find("#search").elements;
  const name = form.name.value.toLocaleLowerCase();
  const decisions = form.decision.value.split(",").filter(Boolean);
  let shown = 0;
  for (const row of listRows()) {
    const review = state.reviews[row.dataset.number] || "none";
    const names = findAll("bdi", row).map((element) => element.textContent.toLocaleLowerCase());
    row.hidden = !(
      names.some((text) => text.includes(name)) &&
      (!decisions.length || decisions.includes(row.dataset.decision)) &&
      (!form.review.value || form.review.value === review)
    );
    shown += !row.hidden;
    find(`#pair-${row.dataset.number}`)?.classList.toggle("unlisted", row.hidden); // not printed either
  }
  find("#shown").textContent = `${shown} of ${listRows().length} pairs`;
}

/** Recount passages and shares after a change of the filters; the scores stay as they are. */
function recount() {
  const filters = readFilters();
  let all = 0, left = 0;
  for (const row of listRows()) {
    const passages = listPassages(row, filters);
    const kept = passages.filter((passage) => !passage.excluded);
    all += passages.length;
    left += passages.length - kept.length;
    const share = readKey(row, "share");
    find(".passages", row).textContent = kept.length;
    find(".share", row).textContent = `${Math.min(100, Math.round(100 * share))} %`;
  }
  const note = find("#left-out");
  note.hidden = !left;
  note.textContent = `${left} of ${all} passages are left out as you chose. Scores and decisions do not change.`;
}
