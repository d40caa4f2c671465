export type Row = readonly string[];

/** Lines of a table for the terminal: the first column to the left, numbers to the right where `right` says so. */
export function textTable(head: Row, rows: readonly Row[], right: readonly number[] = []): string {
  const widths = widthsOf([head, ...rows]);
  const line = (row: Row): string =>
    widths
      .map((width, at) => padded(row[at] ?? '', width, right.includes(at)))
      .join('  ')
      .trimEnd();
  return [line(head), widths.map((width) => '-'.repeat(width)).join('  '), ...rows.map(line)].join('\n');
}

/** The same as Markdown, laid out as prettier lays it out. */
export function markdownTable(head: Row, rows: readonly Row[], right: readonly number[] = []): string {
  const escaped = [head, ...rows].map((row) => row.map((cell) => cell.replaceAll('|', '\\|')));
  const widths = widthsOf(escaped).map((width) => Math.max(width, 3));
  const line = (row: Row): string =>
    `| ${widths.map((width, at) => padded(row[at] ?? '', width, right.includes(at))).join(' | ')} |`;
  const rule = widths.map((width, at) => (right.includes(at) ? `${'-'.repeat(width - 1)}:` : '-'.repeat(width)));
  return [line(escaped[0]!), `| ${rule.join(' | ')} |`, ...escaped.slice(1).map(line)].join('\n');
}

/** Three significant digits, thousands set apart: 12,300 or 0.0421. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  const rounded = Number(value.toPrecision(3));
  if (Math.abs(rounded) >= 1_000) return rounded.toLocaleString('en-US');
  return String(rounded);
}

const widthsOf = (rows: readonly Row[]): number[] =>
  (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => [...(row[at] ?? '')].length)));

const padded = (cell: string, width: number, right: boolean): string => {
  const space = ' '.repeat(Math.max(0, width - [...cell].length));
  return right ? space + cell : cell + space;
};
