import { THEME_SCRIPT } from '../pages/page-theme.ts';
import { SEARCH_KEY_SCRIPT } from '../pages/search-key.ts';

/** Script of the reference page: filters by the words of the search. The page works without it. */
export const PAGE_SCRIPT = `
${THEME_SCRIPT}${SEARCH_KEY_SCRIPT}const items = [...document.querySelectorAll('[data-item]')].map((element) => ({
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
`;
