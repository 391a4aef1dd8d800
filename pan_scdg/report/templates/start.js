// The page of pairs.

const makeReader = (section) => new Pair(section);

/** The pairs that the table shows, in its order; those without details left out. */
const listShown = () =>
  listRows().filter((row) => !row.hidden).map((row) => `pair-${row.dataset.number}`).filter((id) => find(`#${id}`));

addEventListener("DOMContentLoaded", () => {
  loadState();
  levels = JSON.parse(find("#levels").textContent);
  loadNames();
  startOverview();
  for (const number of Object.keys(state.reviews)) showReview(number);
  const form = find("#filters");
  form.elements.anonymous.checked = form.elements.anonymous.disabled = Boolean(state.anonymous);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    if (event.target.name === "anonymous") {
      hideNames(event.target.checked);
      unsaved = true;
    } else {
      recount();
      opened?.applyFilters();
    }
  });
  find("#save").addEventListener("click", savePage);
  find("#print").addEventListener("click", () => print());
  addEventListener("beforeprint", makeSheets);
  addEventListener("afterprint", removeSheets);
  find("#help-button").addEventListener("click", () => find("#help").showModal());
  addEventListener("beforeunload", (event) => unsaved && event.preventDefault());
  startReading(listRows().length);
});
