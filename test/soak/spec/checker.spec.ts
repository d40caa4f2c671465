import { check } from '../checker/check.js';
import { greenRun, removeFirst, TIMES } from './green-run.fixture.js';
import { CLIENTS } from './seeded-clients.fixture.js';
import { CONTRACT } from './seeded-contract.fixture.js';
import { failCall, fault, SERVICE } from './seeded-service.fixture.js';

describe('the checker', () => {
  it('finds nothing in a run in which all was well', () => {
    const { lines, dump } = greenRun();
    expect(check(lines, dump, TIMES)).toEqual([]);
  });

  it.each([...CONTRACT, ...CLIENTS, ...SERVICE])('finds %s', (_, invariant, text, spoil) => {
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

  it.each([
    'database-restart',
    'database-freeze',
    'database-stall',
    'database-stall-terminate',
    'database-read-only',
    'database-locks',
    'database-limits',
  ])('suspends promises of time during %s, and no other', (name) => {
    const { lines, dump } = greenRun();
    fault(lines, name, 5_000, 11_000);
    const claim = dump.audit.find(({ source, op }) => source === 'lease' && op === 'update');
    claim!.at = 11_500;
    expect(check(lines, dump, TIMES)).toEqual([]);
    dump.leases.push({ taskNo: 1, generation: 9, holder: 'host:10:x', agent: 'agent-1' });
    expect(check(lines, dump, TIMES)).toMatchObject([{ invariant: 'I2' }]);
  });

  it('does not count the time in which a replica was hit by another fault before it did its work again', () => {
    const { lines, dump } = greenRun();
    lines.push({ kind: 'service', replica: 'A', from: 6_000, to: 18_000, at: 18_000 });
    fault(lines, 'freeze', 7_000, 10_000, 'A');
    expect(check(lines, dump, TIMES)).toEqual([]);
  });

  it('does not count sessions of a replica whose process has died, or whose connections were cut, a moment ago', () => {
    const { lines, dump } = greenRun();
    for (const at of [7_000, 14_000]) lines.push({ kind: 'sessions', sessions: { A: 30 }, at });
    fault(lines, 'network-cut', 6_500, 6_500, 'A');
    expect(check(lines, dump, TIMES)).toEqual([]);
    lines.push({ kind: 'sessions', sessions: { A: 30 }, at: 18_000 });
    expect(check(lines, dump, TIMES)).toMatchObject([{ invariant: 'sessions' }]);
  });

  it.each([
    ['the database was away', 'database-locks', undefined],
    ['the connections of that replica were cut', 'backends', 'A'],
  ])('lets an internal error be where %s', (_, name, replica) => {
    const { lines, dump } = greenRun();
    failCall(lines, 3, 5_600);
    fault(lines, name, 3_000, 4_000, replica);
    expect(check(lines, dump, TIMES)).toEqual([]);
  });

  it('lets an internal error be where the message was accepted from another call, or later', () => {
    const { lines, dump } = greenRun();
    failCall(lines, 3, 1_950);
    expect(check(lines, dump, TIMES)).toEqual([]);
    const again = lines.find((line) => line.kind === 'request' && line.call === 3);
    if (again?.kind === 'request') lines.push({ ...again, call: 9 });
    const end = lines.find((line) => line.kind === 'end' && line.call === 3);
    if (end) end.at = 5_600;
    expect(check(lines, dump, TIMES)).toEqual([]);
  });

  it.each(['terminate', 'database-stall-terminate'])(
    'lets a stream end early whose replica is stopped by %s',
    (name) => {
      const { lines, dump } = greenRun();
      removeFirst(lines, (line) => line.kind === 'event' && line.call === 2 && line.at === 2_003);
      fault(lines, name, 5_000, 6_000, 'A');
      expect(check(lines, dump, TIMES)).toEqual([]);
    },
  );

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
