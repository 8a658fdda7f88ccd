/** A server's address: `https://trainer.example:8443/base`. */
export const URL_PATTERN = /^https?:\/\/[^\s/?#]+(?:\/[^\s?#]*)?$/;
export const URL_FORM = 'an address with http:// or https://';

/** One setting: its values, its default and its description. The flag is `--` and the kebab-case name, the variable `TRAINYARD_` and the name in capitals. */
export type SettingRow = TextRow | ChoiceRow | NumberRow | SwitchRow;

interface Described {
  /** One line of Markdown, for `--help` and the page of the settings. */
  readonly help: string;
  /** Markdown that only the page of the settings adds. */
  readonly more?: string;
  /** The default in words, if it is no constant. */
  readonly defaultText?: string;
}

interface TextRow extends Described {
  readonly kind: 'text';
  readonly default?: string;
  readonly pattern?: RegExp;
  readonly isValid?: (text: string) => boolean;
  /** Texts that `pattern` or `isValid` accepts, in words. */
  readonly form?: string;
  /** The flag may be given several times. */
  readonly isList?: boolean;
  /** The value must not appear in a message. */
  readonly isSecret?: boolean;
}

interface ChoiceRow extends Described {
  readonly kind: 'choice';
  readonly default?: string;
  readonly values: readonly string[];
}

/** `on` or `off`; the flag without a value means `on`. */
interface SwitchRow extends Described {
  readonly kind: 'switch';
  readonly default: 'off';
}

interface NumberRow extends Described {
  readonly kind: 'integer' | 'number';
  readonly default?: number;
  readonly min: number;
  readonly max: number;
}

/** The value of a row; null if a setting without a default is not set. */
export type SettingValue<Row extends SettingRow> = PlainValue<Row> | (Row extends { default: unknown } ? never : null);

type PlainValue<Row extends SettingRow> = Row extends { kind: 'choice'; values: readonly (infer Value)[] }
  ? Value
  : Row extends { kind: 'switch' }
    ? 'on' | 'off'
    : Row extends { kind: 'text' }
      ? string
      : number;
