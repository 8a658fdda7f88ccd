/**
 * Mutants that behave as the original does, so that no test can tell them apart. `npm run mutants` names them and counts them neither way.
 *
 * @type {readonly { readonly file: string, readonly line: string, readonly change: string, readonly because: string }[]}
 *   `line`: the source line where the mutation begins, without its indentation; `change`: as the report describes the mutation
 */
export const EQUIVALENT_MUTANTS = [];
