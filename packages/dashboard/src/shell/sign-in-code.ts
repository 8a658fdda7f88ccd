/** The path that sign-in links have. */
export const SIGN_IN_PATH = '/sign-in';

/**
 * The code of a sign-in link, which stands behind the `#` of the address: no server and no log has seen it there. It is taken out of the address and of
 * the history before anything is done with it.
 *
 * @returns null when the page was opened in another way
 */
export function takeSignInCode(): string | null {
  const code = location.pathname === SIGN_IN_PATH ? location.hash.slice(1) : '';
  if (code === '') return null;
  history.replaceState(null, '', SIGN_IN_PATH);
  return code;
}
