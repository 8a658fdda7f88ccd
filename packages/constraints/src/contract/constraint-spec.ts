/** Whitespace between two tokens of JSON; none is allowed before or after the whole value. */
export type WhitespaceOption =
  /**
   * A few blanks, or one line break and an indentation (`CAPPED_WHITESPACE`), so that a model cannot reach the
   * length limit with blanks.
   */
  | { kind: 'capped' }
  | { kind: 'none' }
  /** A regular expression, matched at most once in each gap. */
  | { kind: 'pattern'; pattern: string };

/** Constraint on the whole text of a completion. */
export type ConstraintSpec =
  | {
      kind: 'json_schema';
      /** A schema, `true`, or the JSON text of one. */
      schema: unknown;
      whitespace: WhitespaceOption;
      /** True to forbid unlisted properties of an object schema, unless it allows others. */
      closesObjects: boolean;
      /** True to drop unenforceable parts instead of refusing them. Default false. */
      isRelaxed?: boolean;
    }
  /** Any JSON object. */
  | { kind: 'json_object'; whitespace: WhitespaceOption }
  | { kind: 'regex'; pattern: string }
  | { kind: 'choice'; choices: readonly string[] }
  /** llama.cpp's EBNF if a line has `::=` (start rule `root`), else Lark (start rule `start`). */
  | { kind: 'grammar'; source: string }
  /** An object, or its JSON text: `{structures, triggers}` or `{format}`. */
  | { kind: 'structural_tag'; tag: unknown }
  /** If two options start alike, the text follows the one with the longer word there. */
  | { kind: 'either'; options: readonly ConstraintSpec[] };
