/** Messages of programs about faults of the machine, with their remedies. */
const ADVICE = [
  {
    signs: /ENOSPC|no space left on device/i,
    text: 'the disk is full. A first start needs about 1 GB while it runs, and 600 MB afterwards. Free some space and start again',
  },
  {
    signs: /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT/,
    text: 'the npm registry is unreachable. The first start needs a network connection. Connect it (or set HTTPS_PROXY) and start again',
  },
  {
    signs: /EACCES|EPERM|EROFS/,
    text: 'this folder is not writable. Start as its owner, or in your own copy',
  },
];

/**
 * Remedy in one line, for the user.
 * @param {string} output output of a program, or an error message
 * @returns {string | null} null for other faults
 */
export function whatToDo(output) {
  return ADVICE.find(({ signs }) => signs.test(output))?.text ?? null;
}
