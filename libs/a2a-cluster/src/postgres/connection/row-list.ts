/**
 * How the values of a column are sent: as an array of an SQL type, or as the lines of one text. JSON goes as lines: in an
 * array each of its quotation marks would have to be escaped, at a cost like that of the JSON itself. A line holds no line
 * break, and an empty one is NULL.
 */
export type ColumnType = 'text' | 'bigint' | 'integer' | 'boolean' | 'uuid' | 'double precision' | 'lines';

/** Rows as parameters of a statement: one list for each column, which the statement takes apart again. */
export class RowList<Row extends object> {
  private readonly names: readonly (keyof Row & string)[];

  constructor(private readonly types: Readonly<Record<keyof Row & string, ColumnType>>) {
    this.names = Object.keys(types) as (keyof Row & string)[];
  }

  /** The rows in a FROM clause, under this alias, with their positions from 1 on as the column `at`. */
  as(alias: string): string {
    const lists = this.names.map((name) =>
      this.types[name] === 'lines' ? lines(`$${name}`) : `$${name}::${this.types[name]}[]`,
    );
    return `unnest(${lists.join(', ')}) WITH ORDINALITY AS ${alias}(${this.names.join(', ')}, at)`;
  }

  params(rows: readonly Row[]): Record<keyof Row & string, unknown> {
    const lists = this.names.map((name) => {
      const values = rows.map((row) => row[name] ?? null);
      return [name, this.types[name] === 'lines' ? joinLines(values as (string | null)[]) : values];
    });
    return Object.fromEntries(lists) as Record<keyof Row & string, unknown>;
  }
}

/** The lines of a text parameter. */
export const lines = (parameter: string): string => `string_to_array(${parameter}::text, E'\\n', '')`;

/** Texts as the lines of one; null is an empty line. Throws RangeError where one of them has a line break itself. */
export function joinLines(texts: readonly (string | null)[]): string {
  const broken = texts.find((text) => text?.includes('\n'));
  if (broken !== undefined) {
    throw new RangeError(
      'A text that is stored has a line break outside of its strings: give JSON without white space.',
    );
  }
  return texts.map((text) => text ?? '').join('\n');
}
