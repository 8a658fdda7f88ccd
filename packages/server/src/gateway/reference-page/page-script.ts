import { THEME_SCRIPT } from '../pages/page-theme.ts';

/** Script of the reference page: filters by the words of the search. The page works without it. */
export const PAGE_SCRIPT = `
${THEME_SCRIPT}const input = document.querySelector('input');
const items = [...document.querySelectorAll('[data-item]')].map((element) => ({
  element,
  text: (element.dataset.item + ' ' + element.textContent).toLowerCase(),
}));
const links = new Map([...document.querySelectorAll('nav a')].map((link) => [link.hash.slice(1), link]));
function search() {
  const words = input.value.toLowerCase().split(/\\s+/).filter(Boolean);
  for (const { element, text } of items) {
    const isFound = words.every((word) => text.includes(word));
    element.hidden = !isFound;
    const link = links.get(element.id);
    if (link) link.hidden = !isFound;
  }
}
input.addEventListener('input', search);
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && document.activeElement !== input) {
    event.preventDefault();
    input.focus();
  }
});
`;
