/** Messages of programs about faults of the machine, with their remedies. */
const ADVICE = [
  {
    signs: /ENOSPC|no space left on device/i,
    text: 'the disk is full: a first start needs about 1 GB while it works and leaves 600 MB; free some and start again',
  },
  {
    signs: /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT/,
    text: 'the registry cannot be reached: the first start needs the network; connect it (or set HTTPS_PROXY) and start again',
  },
  {
    signs: /EACCES|EPERM|EROFS/,
    text: 'this folder cannot be written: start as its owner, or in a copy that belongs to you',
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
