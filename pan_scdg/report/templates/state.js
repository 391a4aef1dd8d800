// The reader's marks.

/** What a reader has marked: {reviews: {number of a pair: "confirmed" or "dismissed"}, passages: {number of a pair:
 * numbers of its dismissed passages}, anonymous: true}. */
const state = { reviews: {}, passages: {} };
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

const isDismissed = (number, passage) => (state.passages[number] ?? []).includes(passage);

/** Dismiss a passage of a pair, or take it back; a pair without any other passage that counts is dismissed with it. */
function dismissPassage(row, passage, dismissed) {
  const number = row.dataset.number;
  const others = (state.passages[number] ?? []).filter((other) => other !== passage);
  state.passages[number] = dismissed ? [...others, passage].sort((a, b) => a - b) : others;
  const counting = listPassages(row, NO_FILTERS).filter(({ places }) => places[0].length);
  if (counting.length && counting.every(({ excluded }) => excluded)) state.reviews[number] = "dismissed";
  else if (!dismissed && state.reviews[number] === "dismissed") delete state.reviews[number];
  unsaved = true;
  showReview(number);
}

const readData = (number) => JSON.parse(find(`#pair-${number} script.data`)?.textContent ?? "null");

/** Dismiss a passage, and in all pairs in detail what is at the same place in one of its texts. */
function dismissShared(row, passage) {
  const own = readData(row.dataset.number), sides = [0, 1];
  const place = (data, n, side) => data.passages[n].slice(2 * side, 2 * side + 2);
  const isSame = ([begin, end], [from, to]) => 2 * (Math.min(end, to) - Math.max(begin, from)) > to - from;
  for (const other of listRows()) {
    const data = readData(other.dataset.number);
    data?.passages.forEach((_, n) => {
      const shares = sides.some((a) => sides.some((b) =>
        own.texts[a] === data.texts[b] && isSame(place(own, passage - 1, a), place(data, n, b))));
      if (shares) dismissPassage(other, n + 1, true);
    });
  }
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

const NO_FILTERS = { quoted: false, listed: false, words: 0 };

/** Passages of a pair: words, places in both texts that count, and whether the reader or the filters leave the passage out. */
function listPassages(row, filters = readFilters()) {
  return JSON.parse(row.dataset.passages).map(([words, within, ...sides], i) => {
    const excluded = isDismissed(row.dataset.number, i + 1) || words < filters.words || (filters.quoted && within === 1) || (filters.listed && within >= 2);
    return { words, excluded, places: sides.map(pairUp) };
  });
}
