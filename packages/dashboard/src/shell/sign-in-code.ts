/** Path of sign-in links. */
export const SIGN_IN_PATH = '/sign-in';

/**
 * Reads the code of a sign-in link, which follows `#` in the address and so reaches no server or log. Removes
 * it from the address and the history first.
 *
 * @returns null if the page was not opened by such a link
 */
export function takeSignInCode(): string | null {
  const code = location.pathname === SIGN_IN_PATH ? location.hash.slice(1) : '';
  if (code === '') return null;
  history.replaceState(null, '', SIGN_IN_PATH);
  return code;
}
