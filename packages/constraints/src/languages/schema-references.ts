import { ConstraintError } from '../contract/constraint-error.ts';

/**
 * Resolves references within a schema: JSON pointers and anchors in a fragment, from the root or the nearest
 * `$id`.
 */
export class SchemaReferences {
  readonly #root: unknown;
  readonly #anchors = new Map<unknown, Map<string, unknown>>();

  constructor(root: unknown) {
    this.#root = root;
  }

  /**
   * Subschema of a reference. Generators write names of definitions unescaped (`#/$defs/Box[int]`), so a pointer
   * is read literally before percent escapes are resolved.
   *
   * @param base nearest enclosing schema with `$id`. Default: the root
   * @throws {ConstraintError} `constraint.unsupported` for references outside the schema, `constraint.invalid` for
   * missing targets
   */
  resolve(reference: string, path: string, base: unknown = this.#root): unknown {
    if (!reference.startsWith('#'))
      throw new ConstraintError('constraint.unsupported', `only references inside the schema are supported (${path})`);
    const target = this.find(reference, base);
    if (target !== undefined) return target;
    throw new ConstraintError(
      'constraint.invalid',
      `\`$ref\` names ${JSON.stringify(reference)}, which does not exist (${path})`,
    );
  }

  /** Like {@link resolve}, but undefined for a missing target. */
  find(reference: string, base: unknown = this.#root): unknown {
    if (reference === '#') return base;
    for (const fragment of spellingsOf(reference.slice(1))) {
      const target = fragment.startsWith('/') ? atPointer(base, fragment) : this.#anchorsOf(base).get(fragment);
      if (target !== undefined) return target;
    }
    return undefined;
  }

  #anchorsOf(base: unknown): Map<string, unknown> {
    let anchors = this.#anchors.get(base);
    if (anchors === undefined) this.#anchors.set(base, (anchors = anchorsIn(base)));
    return anchors;
  }
}

function spellingsOf(fragment: string): string[] {
  try {
    return [...new Set([fragment, decodeURIComponent(fragment)])];
  } catch {
    return [fragment]; // a percent sign that is not an escape
  }
}

function atPointer(root: unknown, pointer: string): unknown {
  let at = root;
  for (const part of pointer.slice(1).split('/')) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined;
    at = (at as Record<string, unknown>)[key];
  }
  return at;
}

/** Anchors: `$anchor`, and `$id: "#name"` of older drafts. */
function anchorsIn(base: unknown): Map<string, unknown> {
  const anchors = new Map<string, unknown>();
  const open: unknown[] = [base];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next !== 'object' || next === null) continue;
    const { $anchor: anchor, $id: id } = next as Record<string, unknown>;
    if (typeof anchor === 'string') anchors.set(anchor, next);
    if (typeof id === 'string' && id.startsWith('#')) anchors.set(id.slice(1), next);
    for (const member of Object.values(next)) open.push(member);
  }
  return anchors;
}
