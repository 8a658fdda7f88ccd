import { ConstraintError } from '../contract/constraint-error.ts';

export type RuleBody = { kind: 'all' | 'any'; parts: readonly RuleBody[] } | { kind: 'rule'; name: string };

/**
 * Refuses a grammar with a rule that no finite text matches, because each alternative needs itself (`root ::=
 * "a" root`). Rules that end are a least fixpoint. Unreachable rules are ignored.
 *
 * @throws {ConstraintError} `constraint.unsatisfiable`
 */
export function checkRulesEnd(root: string, rules: ReadonlyMap<string, RuleBody>): void {
  const ending = new Set<string>();
  const users = new Map<string, Set<string>>();
  for (const [name, body] of rules)
    for (const used of namesIn(body)) users.set(used, (users.get(used) ?? new Set()).add(name));
  const open = new Set(rules.keys());
  for (const name of open) {
    open.delete(name);
    if (ending.has(name) || !ends(rules.get(name)!, ending, rules)) continue;
    ending.add(name);
    for (const user of users.get(name) ?? []) open.add(user);
  }
  const reached = new Set([root]);
  for (const name of reached) {
    const body = rules.get(name);
    if (body === undefined) continue;
    if (!ending.has(name))
      throw new ConstraintError(
        'constraint.unsatisfiable',
        `no finite text matches rule "${name}" of the grammar: it is infinitely recursive`,
      );
    for (const used of namesIn(body)) reached.add(used);
  }
}

function ends(body: RuleBody, ending: ReadonlySet<string>, rules: ReadonlyMap<string, RuleBody>): boolean {
  if (body.kind === 'rule') return ending.has(body.name) || !rules.has(body.name);
  const test = (part: RuleBody) => ends(part, ending, rules);
  return body.kind === 'all' ? body.parts.every(test) : body.parts.some(test);
}

function* namesIn(body: RuleBody): Generator<string, void> {
  if (body.kind === 'rule') yield body.name;
  else for (const part of body.parts) yield* namesIn(part);
}
