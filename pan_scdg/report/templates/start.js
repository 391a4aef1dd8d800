// Open what the address names: #overview, #pair-3, or #pair-3-2 for the second passage of the third pair.

function route() {
  const [, number, passage] = location.hash.match(/^#pair-(\d+)(?:-(\d+))?$/) ?? [];
  const changes = number !== openPair?.number;
  if (changes) {
    openPair?.close();
    openPair = number && find(`#pair-${number}`) ? new Pair(number) : null;
    document.documentElement.classList.toggle("viewing", openPair !== null);
    openPair?.open();
    scrollTo(0, 0);
  }
  if (openPair && Number(passage) <= openPair.data.passages.length) openPair.select(Number(passage));
  else if (openPair && changes) openPair.step(1);
}

/** Go to the pair before or after the open one, in the order of the table. */
function stepPair(by) {
  const numbers = listShownPairs();
  const at = numbers.indexOf(openPair.number);
  const next = numbers[at + by];
  if (next) location.hash = `#pair-${next}`;
}

function followClick(event) {
  const link = event.target.closest("a[data-number]");
  const band = event.target.closest(".band");
  const ground = event.target.closest(".ground, .profile, .profile-ground");
  if (link && openPair) {
    event.preventDefault();
    if (getSelection().toString()) return; // the reader selects text
    openPair.select(Number(link.dataset.number), link.closest(".pane") ? link : null);
  } else if (band && openPair) openPair.select(Number(band.dataset.number));
  else if (ground && openPair) {
    const box = ground.closest("svg").querySelector(".ground").getBoundingClientRect();
    const pane = openPair.panes[ground.dataset.side ?? 0];
    const share = Math.min(0.9999, Math.max(0, (event.clientX - box.left) / box.width));
    if (pane.length) pane.scrollTo(Math.floor(share * pane.length), 60);
  }
}

const KEYS = {
  n: () => openPair?.step(1),
  p: () => openPair?.step(-1),
  "]": () => openPair && stepPair(1),
  "[": () => openPair && stepPair(-1),
  1: () => openPair?.showLevel("passage"),
  2: () => openPair?.showLevel("sentence"),
  3: () => openPair?.showLevel("token"),
  Escape: () => openPair && (location.hash = "#overview"),
  "?": () => find("#help").showModal(),
};

function followKey(event) {
  // A closed dialog's button keeps the focus for a moment.
  const typing = event.target.closest("input:not([type=radio], [type=checkbox]), select, textarea, dialog[open]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  KEYS[event.key]();
  event.preventDefault();
}

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
      openPair?.applyFilters();
    }
  });
  find("#save").addEventListener("click", savePage);
  find("#print").addEventListener("click", () => print());
  find("#help-button").addEventListener("click", () => find("#help").showModal());
  document.addEventListener("click", followClick);
  document.addEventListener("keydown", followKey);
  addEventListener("hashchange", route);
  if (!location.hash && listRows().length === 1) location.replace("#pair-1"); // nothing to choose from
  addEventListener("beforeunload", (event) => unsaved && event.preventDefault());
  route();
});
