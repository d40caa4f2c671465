/** What the command line asks for. */
export interface BenchArguments {
  /** Names of workloads, in the order of the table; empty: all. */
  names: string[];
  /** Where the measures go as JSON: a file, the end of the output (true), or nowhere. */
  json: string | boolean;
  /** Whether docs/internals/performance.md is brought up to date. */
  docs: boolean;
}

/** A command line that cannot be followed; the message is for whoever typed it. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/**
 * Reads `[NAME …] [--json [FILE]] [--docs]`. What follows `--json` is a file unless it is an option or a workload.
 *
 * @throws {UsageError} one line that says what can be given
 */
export function parseArguments(given: readonly string[], known: readonly string[]): BenchArguments {
  const result: BenchArguments = { names: [], json: false, docs: false };
  const isName = (word: string): boolean => known.includes(word.toUpperCase());
  for (let at = 0; at < given.length; at += 1) {
    const word = given[at]!;
    const next = given[at + 1];
    if (word === '--docs') result.docs = true;
    else if (word.startsWith('--json=') && word.length > '--json='.length) result.json = word.slice('--json='.length);
    else if (word === '--json') {
      const isFile = next !== undefined && !next.startsWith('-') && !isName(next);
      result.json = isFile ? next : true;
      if (isFile) at += 1;
    } else if (word.startsWith('-')) throw new UsageError(`unknown option ${word}: ${usage(known)}`);
    else if (isName(word)) result.names.push(word.toUpperCase());
    else throw new UsageError(`unknown workload ${word}: ${usage(known)}`);
  }
  result.names = known.filter((name) => result.names.includes(name));
  return result;
}

const usage = (known: readonly string[]): string =>
  `give any of ${known.join(', ')}, --json [FILE], --docs, or nothing for all workloads`;
