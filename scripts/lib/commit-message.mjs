const MAX_SUBJECT = 72;
const MAX_FILES_WITHOUT_BODY = 5;
/** Git writes these subjects itself. */
const MADE_BY_GIT = /^(?:Merge|Revert|Reapply|fixup!|squash!|amend!) /;

/**
 * @param {string} message of a commit; lines that start with `#` are comments
 * @param {number} numFiles that the commit changes
 * @returns {string[]} one sentence for each fault
 */
export function findMessageFaults(message, numFiles) {
  // `git commit -v` shows the diff below this line.
  const [written = ''] = message.split(/^# -+ >8 -+$/m);
  const [subject = '', ...rest] = written.split('\n').filter((line) => !line.startsWith('#'));
  if (MADE_BY_GIT.test(subject)) return [];
  const faults = [];
  const [, verb = null] = /^[a-z][a-z0-9, :/.-]*: (\S+) ?/.exec(subject) ?? [];
  if (verb === null) faults.push(`the subject must read "area: what the change does", got "${subject}"`);
  else if (
    /^[A-Z]/.test(verb) ||
    (/(?:ed|ing)$/.test(verb) &&
      !/^(?:need|feed|seed|embed|bring|string|ping|speed|shed|proceed|exceed|succeed|spread|bleed|breed)$/.test(verb))
  )
    faults.push(`the subject must be imperative ("add", not "added" or "Adds"), got "${verb}"`);
  if (subject.length > MAX_SUBJECT)
    faults.push(`the subject must have at most ${MAX_SUBJECT} characters, got ${subject.length}`);
  if ((rest[0] ?? '').trim() !== '') faults.push('the second line must be empty');
  if (numFiles > MAX_FILES_WITHOUT_BODY && rest.join('').trim() === '')
    faults.push(
      `a body must give the reason if more than ${MAX_FILES_WITHOUT_BODY} files change, got ${numFiles} files`,
    );
  return faults;
}
