// The open pair: its filters and the reader's mark.

class Pair extends Reader {
  constructor(section) {
    super(section);
    this.number = section.id.split("-")[1];
  }

  open() {
    super.open();
    const slot = find(".slot", this.section);
    const review = document.createElement("label");
    review.append("Your mark ", makeReview(this.number));
    find(".result", this.section).append(review);
    this.applyFilters();
    this.startGains(slot);
  }

  close() {
    find(".result label", this.section).remove();
    super.close();
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
}
