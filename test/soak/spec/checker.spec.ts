import { check } from '../checker/check.js';
import { greenRun, removeFirst, TIMES } from './green-run.fixture.js';
import { CLIENTS } from './seeded-clients.fixture.js';
import { CONTRACT } from './seeded-contract.fixture.js';

describe('the checker', () => {
  it('finds nothing in a run in which all was well', () => {
    const { lines, dump } = greenRun();
    expect(check(lines, dump, TIMES)).toEqual([]);
  });

  it.each([...CONTRACT, ...CLIENTS])('finds %s', (_, invariant, text, spoil) => {
    const run = greenRun();
    spoil(run);
    const found = check(run.lines, run.dump, TIMES);
    expect(found.map((violation) => `${violation.invariant} ${violation.text}`)).toContainEqual(
      expect.stringMatching(new RegExp(`^${invariant} .*(?:${text.source})`)),
    );
  });

  it('does not count the time in which nobody could have claimed a lease', () => {
    const { lines, dump } = greenRun();
    const claim = dump.audit.find(({ source, op }) => source === 'lease' && op === 'update');
    claim!.at = 11_500;
    lines.push({ kind: 'outage', from: 5_000, to: 11_000, at: 11_000 });
    expect(check(lines, dump, TIMES).filter(({ invariant }) => invariant === 'I6')).toEqual([]);
  });

  it('lets a stream end early whose connection broke, or whose replica was shutting down', () => {
    const { lines, dump } = greenRun();
    removeFirst(lines, (line) => line.kind === 'event' && line.call === 2 && line.at === 2_003);
    const end = lines.find((line) => line.kind === 'end' && line.call === 2);
    if (end?.kind === 'end') end.how = 'broken';
    expect(check(lines, dump, TIMES)).toEqual([]);
    if (end?.kind === 'end') end.how = 'finished';
    for (const [phase, at] of [['begins', 5_000] as const, ['ends', 6_000] as const]) {
      lines.push({ kind: 'fault', number: 1, fault: 'terminate', replica: 'A', phase, at });
    }
    expect(check(lines, dump, TIMES)).toEqual([]);
  });
});
