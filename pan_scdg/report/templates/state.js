// The reader's marks.

/** What a reader has marked: {reviews: {number of a pair: "confirmed" or "dismissed"}, anonymous: true}. */
const state = { reviews: {} };
let unsaved = false;

function loadState() {
  Object.assign(state, JSON.parse(find("#state").textContent));
}

function setReview(number, review) {
  if (review) state.reviews[number] = review;
  else delete state.reviews[number];
  unsaved = true;
  showReview(number);
}

/** Show a mark in the table and at the pair. */
function showReview(number) {
  const review = state.reviews[number] || "";
  for (const select of findAll(`select[data-pair="${number}"]`)) {
    select.value = review;
    select.parentElement.dataset.review = review; // shown on paper
  }
  const pair = find(`#pair-${number}`);
  if (pair) pair.dataset.review = review;
}

function makeReview(number) {
  const select = document.createElement("select");
  select.dataset.pair = number;
  select.setAttribute("aria-label", `Your mark of pair ${number}`);
  select.append(new Option("–", ""), new Option("confirmed", "confirmed"), new Option("dismissed", "dismissed"));
  select.value = state.reviews[number] || "";
  select.addEventListener("change", () => setReview(number, select.value));
  return select;
}

/** The passages that a reader leaves out: quotations, lists of references, short ones. */
function readFilters() {
  const form = find("#filters").elements;
  return { quoted: form.quoted.checked, listed: form.listed.checked, words: Number(form.words.value) || 0 };
}

/** Passages of a row of the table: length in characters, words, and whether the filters leave it out. */
function listPassages(row, filters = readFilters()) {
  return row.dataset.passages.split(" ").filter(Boolean).map((entry) => {
    const [length, words, quoted, listed] = entry.split(",").map(Number);
    const excluded = words < filters.words || (filters.quoted && quoted) || (filters.listed && listed);
    return { length, words, excluded: Boolean(excluded) };
  });
}
