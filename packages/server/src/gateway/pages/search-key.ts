/** Script that focuses the only `input` of a page when `/` is pressed. Declares `input`. */
export const SEARCH_KEY_SCRIPT = `const input = document.querySelector('input');
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && document.activeElement !== input) {
    event.preventDefault();
    input.focus();
  }
});
`;
