import type { Queries, SqlRow } from '../contract/sql.ts';

/**
 * Everything that a schema consists of, in a form that is equal for equal schemas. Order of columns is left
 * out: an added column is the last one, and every statement names its columns.
 */
export type Catalogue = Readonly<Record<string, unknown>>;

/** An SQLite schema is its statements: definitions, checks, options, indexes and triggers as normalised text. */
export async function sqliteCatalogue(queries: Queries): Promise<Catalogue> {
  const { rows } = await queries.query<{ type: string; name: string; tbl_name: string; sql: string | null }>(
    `select type, name, tbl_name, sql from sqlite_schema where name not like 'sqlite_%' or type = 'index' order by type, name`,
    [],
  );
  const catalogue: Record<string, unknown> = {};
  for (const { type, name, tbl_name: table, sql } of rows)
    catalogue[`${type} ${name}`] = type === 'table' ? partsOfTable(sql ?? '') : `on ${table}: ${normalised(sql ?? '')}`;
  for (const { name } of rows.filter(({ type }) => type === 'table')) {
    // The order decides between equally cheap indexes.
    const indexes = await queries.query('select name, "unique", origin, partial from pragma_index_list(?)', [name]);
    catalogue[`indexes of ${name}`] = indexes.rows;
  }
  return catalogue;
}

/** A PostgreSQL schema as the server describes it. */
export async function postgresCatalogue(queries: Queries): Promise<Catalogue> {
  const { rows } = await queries.query<{ name: string }>('select current_schema() as name', []);
  const schema = rows[0]?.name ?? '';
  const catalogue: Record<string, SqlRow[]> = {};
  for (const [kind, statement] of Object.entries(POSTGRES_PARTS)) {
    const parts = await queries.query(statement, []);
    const text = JSON.stringify(parts.rows).replaceAll(`${schema}.`, '');
    catalogue[kind] = JSON.parse(text) as SqlRow[];
  }
  return catalogue;
}

const OF_SCHEMA = 'c.relnamespace = current_schema()::regnamespace';
const POSTGRES_PARTS = {
  relations: `select c.relname, c.relkind::text, c.relpersistence::text, c.reloptions::text from pg_class c where ${OF_SCHEMA} order by 1`,
  columns: `select c.relname, a.attname, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull::int, a.attidentity::text,
      a.attgenerated::text, a.attcollation::regcollation::text, pg_get_expr(d.adbin, d.adrelid) as "default"
    from pg_attribute a join pg_class c on c.oid = a.attrelid left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where ${OF_SCHEMA} and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped order by 1, 2`,
  constraints: `select c.relname, k.conname, k.contype::text, k.convalidated::int, pg_get_constraintdef(k.oid) as definition
    from pg_constraint k join pg_class c on c.oid = k.conrelid where ${OF_SCHEMA} order by 1, 2`,
  indexes: `select c.relname, pg_get_indexdef(i.indexrelid) as definition, i.indisvalid::int
    from pg_index i join pg_class c on c.oid = i.indrelid where ${OF_SCHEMA} order by 1, 2`,
  triggers: `select c.relname, pg_get_triggerdef(t.oid) as definition, t.tgenabled::text
    from pg_trigger t join pg_class c on c.oid = t.tgrelid where ${OF_SCHEMA} and not t.tgisinternal order by 1, 2`,
  functions: `select pg_get_functiondef(p.oid) as definition from pg_proc p where p.pronamespace = current_schema()::regnamespace order by p.proname`,
  sequences: `select sequencename, data_type::text, start_value, min_value::text, max_value::text, increment_by, cycle::int
    from pg_sequences where schemaname = current_schema() order by 1`,
};

/** Parts of `create table`; the order of definitions and the place of checks mean nothing. */
function partsOfTable(sql: string): { options: string; definitions: string[]; checks: string[] } {
  const text = normalised(sql);
  const [start, end] = [text.indexOf('('), text.lastIndexOf(')')];
  const checks: string[] = [];
  let rest = text.slice(start + 1, end);
  for (let at = rest.indexOf('check ('); at >= 0; at = rest.indexOf('check (')) {
    const close = closingOf(rest, at + 'check '.length);
    checks.push(rest.slice(at, close + 1));
    rest = `${rest.slice(0, at)}${rest.slice(close + 1)}`;
  }
  const definitions = splitOutside(rest).filter((definition) => definition !== '');
  return { options: text.slice(end + 1).trim(), definitions: definitions.toSorted(), checks: checks.toSorted() };
}

/** Statement without comments, quotes of names and line breaks. */
function normalised(sql: string): string {
  return sql
    .replaceAll(/--[^\n]*/g, '')
    .replaceAll('"', '')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/\( | (?=\))/g, (space) => space.trim())
    .trim();
}

function closingOf(text: string, open: number): number {
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    if (text[at] === '(') depth += 1;
    if (text[at] === ')' && --depth === 0) return at;
  }
  throw new Error(`unclosed parenthesis: ${text.slice(open)}`);
}

/** Splits at commas that are in no parenthesis. */
function splitOutside(text: string): string[] {
  const parts = [''];
  let depth = 0;
  for (const character of text) {
    if (character === '(') depth += 1;
    if (character === ')') depth -= 1;
    if (character === ',' && depth === 0) parts.push('');
    else parts[parts.length - 1] += character;
  }
  return parts.map((part) => part.trim());
}
