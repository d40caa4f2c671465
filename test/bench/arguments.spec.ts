import { parseArguments, UsageError } from './arguments.js';

const KNOWN = ['W1', 'W2', 'W3'];
const parse = (...given: string[]) => parseArguments(given, KNOWN);

describe('The arguments of the bench', () => {
  it('are all workloads and no file unless they say otherwise', () => {
    expect(parse()).toEqual({ names: [], json: false, docs: false });
  });

  it('name workloads in any case and order; they run in the order of the table', () => {
    expect(parse('w3', 'W1').names).toEqual(['W1', 'W3']);
  });

  it.each([
    [['--json'], true],
    [['--json', 'out.json'], 'out.json'],
    [['--json=out.json'], 'out.json'],
    [['--json', 'W1'], true],
    [['--json', '--docs'], true],
  ])('%j: JSON goes to %j', (given, json) => {
    expect(parse(...given).json).toBe(json);
  });

  it('take a workload after --json for a workload', () => {
    expect(parse('--json', 'w2')).toEqual({ names: ['W2'], json: true, docs: false });
  });

  it.each(['W9', '--fast', '--json=', '-j'])('refuse %s in one line that names the workloads', (word) => {
    const refused = (): unknown => parse(word);
    expect(refused).toThrow(UsageError);
    expect(refused).toThrow(/^unknown (workload|option) \S+: give any of W1, W2, W3, [^\n]+$/);
  });
});
