/** Whitespace allowed between two tokens of JSON; none is allowed before or after the whole value. */
export type WhitespaceOption =
  /** A few blanks, or one line break and an indentation (`CAPPED_WHITESPACE`): a model cannot blank its way to the length limit. */
  | { kind: 'capped' }
  | { kind: 'none' }
  /** A regular expression, matched at most once in each gap. */
  | { kind: 'pattern'; pattern: string };

/** Describes the whole text of a completion, from its first character to its last. */
export type ConstraintSpec =
  | {
      kind: 'json_schema';
      /** A schema, `true`, or the JSON text of one. */
      schema: unknown;
      whitespace: WhitespaceOption;
      /** Objects that list properties and say nothing of others have no others. */
      closesObjects: boolean;
      /** Leaves out the parts that cannot be enforced instead of refusing them. Default false. */
      isRelaxed?: boolean;
    }
  /** Any JSON object. */
  | { kind: 'json_object'; whitespace: WhitespaceOption }
  | { kind: 'regex'; pattern: string }
  | { kind: 'choice'; choices: readonly string[] }
  /** EBNF as llama.cpp writes it when a line has `::=` (start rule `root`), else Lark (start rule `start`). */
  | { kind: 'grammar'; source: string }
  /** An object, or its JSON text: `{structures, triggers}` or `{format}`. */
  | { kind: 'structural_tag'; tag: unknown }
  /** One of them. Where two begin alike, the text is held to the one with the longer word there. */
  | { kind: 'either'; options: readonly ConstraintSpec[] };
