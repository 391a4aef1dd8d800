// The open pair: its filters and the reader's mark, and the level of colour.

class Pair extends Reader {
  constructor(section) {
    super(section);
    this.number = section.id.split("-")[1];
    this.gains = null;
  }

  open() {
    super.open();
    const slot = find(".slot", this.section);
    const review = document.createElement("label");
    review.append("Your mark ", makeReview(this.number));
    find(".result", this.section).append(review);
    this.applyFilters();
    if (this.data.gains) this.gains = new Gains(this.data, this.panes[0]);
    else for (const input of findAll("[name=level]:not([value=passage])", slot)) {
      input.disabled = true;
      input.parentElement.title = "The gains of this pair's tokens were not measured";
    }
    this.listenForLevels(slot);
  }

  close() {
    this.gains?.close();
    find(".result label", this.section).remove();
    super.close();
  }

  listenForLevels(slot) {
    slot.addEventListener("change", (event) => {
      if (event.target.name === "level") this.showLevel(event.target.value);
    });
    const [pane] = this.panes;
    pane.element.addEventListener("pointermove", (event) => this.point(event));
    pane.element.addEventListener("pointerleave", () => hideTooltip());
    pane.element.addEventListener("scroll", () => hideTooltip());
    pane.element.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!by || !this.gains || this.gains.level === "passage") return;
      event.preventDefault();
      this.read(this.gains.step(by));
    });
  }

  /** Mark passages, and hide the rows of those that are left out. */
  applyFilters() {
    const row = listRows().find((row) => row.dataset.number === this.number);
    const passages = listPassages(row);
    this.excluded = new Set(passages.flatMap((passage, i) => (passage.excluded ? [i + 1] : [])));
    for (const element of findAll("[data-number]", this.section))
      if (element.matches("tbody, .band")) element.classList.toggle("excluded", this.excluded.has(Number(element.dataset.number)));
    for (const pane of this.panes) pane.mark(this.excluded);
    this.gains?.repaint();
    if (this.excluded.has(this.chosen)) this.chosen = 0;
    this.choose(this.chosen);
  }

  showLevel(level) {
    if (level !== "passage" && !this.gains) return;
    find(`[name=level][value=${level}]`, this.section).checked = true;
    fillLegend(find(".legend", this.section), level);
    this.gains?.show(level);
    this.read(null);
  }

  /** Say the gain of a token or sentence. */
  read(unit) {
    find(".readout", this.section).textContent = unit ? this.describeUnit(unit) : "";
  }

  describeUnit(unit) {
    const value = `${unit.gain < 0 ? "−" : "+"}${Math.abs(unit.gain).toFixed(2)} nats`;
    if (unit.tokens > 1 || this.gains.level === "sentence") return `${value} per token, mean of ${unit.tokens} tokens`;
    const block = this.panes[0].findBlock(unit.begin);
    return `“${block.text.slice(unit.begin - block.begin, unit.end - block.begin).trim()}” ${value}`;
  }

  point(event) {
    if (!this.gains || this.gains.level === "passage") return;
    const caret = document.caretPositionFromPoint?.(event.clientX, event.clientY);
    const old = caret ? null : document.caretRangeFromPoint?.(event.clientX, event.clientY);
    const node = caret?.offsetNode ?? old?.startContainer;
    const unit = node && event.target.closest("p")
      ? this.gains.find(this.panes[0].findPlace(node, caret?.offset ?? old.startOffset)) : null;
    if (unit) showTooltip(this.describeUnit(unit), event.clientX, event.clientY);
    else hideTooltip();
  }
}

function showTooltip(text, x, y) {
  let tooltip = find(".tooltip");
  if (!tooltip) {
    tooltip = document.createElement("div");
    tooltip.className = "tooltip";
    document.body.append(tooltip);
  }
  tooltip.textContent = text;
  tooltip.style.left = `${Math.min(x + 12, innerWidth - 220)}px`;
  tooltip.style.top = `${y + 18}px`;
}

function hideTooltip() {
  find(".tooltip")?.remove();
}
