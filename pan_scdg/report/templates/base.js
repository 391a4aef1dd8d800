// The page is complete without this script; it shows one pair or query at a time, with both texts beside each other.
document.documentElement.classList.add("js"); // before the page is laid out

const find = (selector, within = document) => within.querySelector(selector);
const findAll = (selector, within = document) => [...within.querySelectorAll(selector)];

function makeElement(tag, name, ...content) {
  const element = document.createElement(tag);
  element.className = name;
  element.append(...content);
  return element;
}
