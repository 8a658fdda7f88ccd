/** What may stand between two tokens of JSON. Before and after the whole value nothing may. */
export type WhitespaceOption =
  /** A few blanks, or one line break and an indentation (`CAPPED_WHITESPACE`): a model cannot blank its way to the length limit. */
  | { kind: 'capped' }
  | { kind: 'none' }
  /** A regular expression, matched at most once in each gap. */
  | { kind: 'pattern'; pattern: string };

/** What the text of a completion must be, from its first character to its last. */
export type ConstraintSpec =
  | {
      kind: 'json_schema';
      /** A schema, `true`, or the JSON text of one. */
      schema: unknown;
      whitespace: WhitespaceOption;
      /** Objects that list properties and say nothing of others have no others. */
      closesObjects: boolean;
      /** What cannot be enforced is left out instead of refused. Default false. */
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
