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
  recount();
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

/** The passages that a reader leaves out: quotations, lists of references and formal parts, short ones. */
function readFilters() {
  const form = find("#filters").elements;
  return { quoted: form.quoted.checked, listed: form.listed.checked, words: Number(form.words.value) || 0 };
}

/** Passages of a pair: words, places in both texts that count, and whether the filters leave the passage out. */
function listPassages(row, filters = readFilters()) {
  return JSON.parse(row.dataset.passages).map(([words, within, ...sides]) => {
    const excluded = words < filters.words || (filters.quoted && within === 1) || (filters.listed && within >= 2);
    return { words, excluded, places: sides.map(pairUp) };
  });
}
