import type { LogEntry, TaskLog } from '../helpers/task-log.js';
import { type EffectCounts, expectAllowed, expectOneHistory } from './contract.js';

const entry = (version: number, state: string | undefined, more: Partial<LogEntry> = {}): LogEntry => ({
  version,
  state,
  kind: 'statusUpdate',
  n: version,
  text: undefined,
  at: new Date(0),
  response: {},
  event: undefined as never,
  ...more,
});

const SOUND: TaskLog = {
  taskNo: '1',
  version: 4,
  state: 'COMPLETED',
  leases: 0,
  entries: [entry(1, 'SUBMITTED'), entry(2, 'WORKING'), entry(3, undefined), entry(4, 'COMPLETED')],
};

const [first, second, third, last] = SOUND.entries as [LogEntry, LogEntry, LogEntry, LogEntry];

const NO_EFFECTS: EffectCounts = { attempts: 0, accepted: 0, unresolved: [], never: false };

/** What the race-point tests judge by finds what it is there to find. */
describe('The contract that race points are checked by', () => {
  it('accepts a sound log, and one whose turn was run again', () => {
    expectOneHistory(SOUND);
    const again = [first, second, entry(3, 'WORKING', { n: 1, text: 'attempt 2' }), entry(4, 'COMPLETED', { n: 2 })];
    expectOneHistory({ ...SOUND, entries: again });
  });

  it.each<[string, Partial<TaskLog>]>([
    ['a version that is missing', { entries: [first, second, last] }],
    ['a version that the log does not reach', { version: 5 }],
    ['two ends', { entries: [first, second, { ...third, state: 'FAILED' }, last] }],
    ['an event after the end', { version: 5, entries: [...SOUND.entries, entry(5, undefined)] }],
    ['no end', { state: 'WORKING', entries: [first, second, third, { ...last, state: 'WORKING' }] }],
    ['another end than the task says', { state: 'FAILED' }],
    ['a lease that is left', { leases: 1 }],
    ['an event of the agent that is missing', { entries: [first, second, { ...third, n: 5 }, { ...last, n: 6 }] }],
  ])('finds %s', (_what, changed) => {
    expect(() => expectOneHistory({ ...SOUND, ...changed })).toThrow();
  });

  it.each<[string, Partial<EffectCounts>, Partial<TaskLog>]>([
    ['an action that was accepted twice', { attempts: 2, accepted: 2 }, {}],
    ['one that was dispatched again and must not be', { attempts: 2, accepted: 1, never: true }, {}],
    ['one that was said to be done and was not', {}, { entries: [{ ...first, text: 'charged 5 (entry 1)' }] }],
    ['one that nobody knows of, in a task that completed', { unresolved: ['charge-1'] }, {}],
    ['one that nobody knows of and FAILED does not name', { unresolved: ['charge-1'] }, { state: 'FAILED' }],
  ])('finds %s', (_what, counts, changed) => {
    expectAllowed(NO_EFFECTS, SOUND);
    expect(() => expectAllowed({ ...NO_EFFECTS, ...counts }, { ...SOUND, ...changed })).toThrow();
  });
});
