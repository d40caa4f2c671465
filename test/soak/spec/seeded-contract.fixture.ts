import type { Json } from '../recording.js';
import { EVENTS, type Run, type Seeded, removeFirst as remove, TASK, taskAt } from './green-run.fixture.js';

/** Breaks of I1 to I7. */
export const CONTRACT: readonly Seeded[] = [
  [
    'two leases at once',
    'I1',
    /a second lease was made/,
    ({ dump }) => remove(dump.audit, (row) => row.op === 'delete'),
  ],
  [
    'a lease that changes hands under its generation',
    'I1',
    /changed hands under generation 2/,
    ({ dump }) => {
      const claim = dump.audit.find(({ source, op }) => source === 'lease' && op === 'update');
      claim!.after = { ...claim!.after, generation: 2 };
    },
  ],
  [
    'turns that overlap in the log',
    'I1',
    /event 7 is of generation 1, after one of 3/,
    ({ dump }) => rewrite(dump, 7, { n: 6, attempt: 1, fencingToken: 1 }),
  ],
  [
    'a lease with a generation that was there before',
    'I3',
    /a lease of generation 1 was made after 1/,
    ({ dump }) => {
      const made = dump.audit.filter(({ source, op }) => source === 'lease' && op === 'insert');
      made[1]!.after = { ...made[1]!.after, generation: 1 };
    },
  ],
  [
    'an event that an older generation stored',
    'I3',
    /event 6 was stored by generation 2 while the lease was of generation 3/,
    ({ dump }) => rewrite(dump, 6, { n: 5, attempt: 1, fencingToken: 2 }),
  ],
  [
    'an event that was stored after the release',
    'I3',
    /event 4 was stored by generation 1 while nobody ran the task/,
    ({ dump }) => moveRelease(dump, '1250'),
  ],
  [
    'a running task without a lease',
    'I2',
    /is TASK_STATE_WORKING and has no lease/,
    ({ dump }) => moveRelease(dump, '1250'),
  ],
  ['an ended task with a lease', 'I2', /is TASK_STATE_COMPLETED and has a lease/, ({ dump }) => void dump.audit.pop()],
  [
    'a lease out of nothing',
    'I2',
    /a lease was made without the message/,
    ({ dump }) => {
      const made = dump.audit.filter(({ source, op }) => source === 'lease' && op === 'insert');
      made[1]!.txid = 'another';
    },
  ],
  [
    'a lease that is left over',
    'I2',
    /a lease is left over, of generation 9/,
    ({ dump }) => void dump.leases.push({ taskNo: 1, generation: 9, holder: 'host:10:x', agent: 'agent-1' }),
  ],
  [
    'a second end',
    'I4',
    /the task ended 2 times: TASK_STATE_COMPLETED at 7, TASK_STATE_CANCELED at 8/,
    ({ dump }) => append(dump, { statusUpdate: { taskId: TASK, status: { state: 'TASK_STATE_CANCELED' } } }),
  ],
  [
    'an event after the end',
    'I4',
    /the task ended at 7, and events follow to 8/,
    ({ dump }) => append(dump, { userMessage: { messageId: 'late' } }),
  ],
  [
    'a state that the log does not know',
    'I4',
    /the task is TASK_STATE_FAILED, by its log it is TASK_STATE_COMPLETED/,
    ({ dump }) => void (dump.tasks[0]!.state = 'TASK_STATE_FAILED'),
  ],
  ['a gap in the log', 'I5', /the log holds 1 2 4 5 6 7/, ({ dump }) => void dump.events.splice(2, 1)],
  [
    'a snapshot that is not the fold',
    'I5',
    /the snapshot at 7 is not what the log says/,
    ({ dump }) => void (dump.tasks[0]!.snapshot = JSON.stringify({ ...taskAt(7), artifacts: [] })),
  ],
  [
    'an event of the log that was changed',
    'I5',
    /an update of an event of the log/,
    ({ dump }) => {
      const written = dump.audit.find(({ source }) => source === 'event');
      dump.audit.push({ ...written!, seq: 99, at: 6_000, txid: '6000', op: 'update' });
    },
  ],
  [
    'a stream that misses an event',
    'I5',
    /subscribe 2 .* event 4 was due and event 6 came/,
    ({ lines }) => remove(lines, (line) => line.kind === 'event' && line.at === 2_001),
  ],
  [
    'a stream that has an event twice',
    'I5',
    /subscribe 2 .* event 4 was due and event 3 came/,
    ({ lines }) => {
      const at = lines.findIndex((line) => line.kind === 'event' && line.at === 2_000);
      lines.splice(at, 0, lines[at]!);
    },
  ],
  [
    'a stream with an event that is not in the log',
    'I5',
    /one that is not in the log came/,
    ({ lines }) => {
      const line = lines.find((it) => it.kind === 'event' && it.at === 2_002);
      if (line?.kind === 'event')
        line.event = { statusUpdate: { taskId: TASK, status: { state: 'TASK_STATE_WORKING' } } };
    },
  ],
  [
    'a stream whose task never was so',
    'I5',
    /its task is at no version what the log says/,
    ({ lines }) => {
      const line = lines.find((it) => it.kind === 'event' && it.at === 1_160);
      if (line?.kind === 'event') line.event = { task: { ...taskAt(2), contextId: 'other' } };
    },
  ],
  [
    'a stream that ends in order, and early',
    'I5',
    /it ended in order while the task was TASK_STATE_WORKING/,
    ({ lines }) => remove(lines, (line) => line.kind === 'event' && line.call === 2 && line.at === 2_003),
  ],
  [
    'a task that runs for good',
    'I6',
    /the task is still TASK_STATE_WORKING/,
    ({ dump }) => void (dump.tasks[0]!.state = 'TASK_STATE_WORKING'),
  ],
  [
    'a lease that ran out and was claimed too late',
    'I6',
    /claimed after 7000 ms, of which 7000 count/,
    ({ dump }) => {
      const claim = dump.audit.find(({ source, op }) => source === 'lease' && op === 'update');
      claim!.at = 11_500;
    },
  ],
  [
    'an effect that may never be repeated, and was',
    'I7',
    /never 'charge-1' .* was dispatched 2 times/,
    ({ dump }) => void dump.dispatches.push(dump.dispatches[0]!),
  ],
  [
    'an idempotent effect that was accepted twice',
    'I7',
    /idempotent 'charge-2' .* was accepted 2 times/,
    ({ dump }) => void dump.entries.push(dump.entries[1]!),
  ],
  [
    'a transaction that was committed twice',
    'I7',
    /transaction 'transfer-3' .* was committed 2 times/,
    ({ dump }) => void dump.entries.push(dump.entries[2]!, dump.entries[3]!),
  ],
  [
    'a transaction that was committed by halves',
    'I7',
    /was committed by halves/,
    ({ dump }) => void dump.entries.pop(),
  ],
  [
    'an effect that succeeded and did not take place',
    'I7',
    /the ledger knows nothing of it/,
    ({ dump }) => void dump.entries.shift(),
  ],
  ['an effect without a record', 'I7', /the record none/, ({ dump }) => void dump.effects.pop()],
];

/** The event of a version with other metadata. Whoever saw it as it was is not what the test looks at. */
function rewrite(dump: Run['dump'], version: number, metadata: Json): void {
  const row = dump.events[version - 1]!;
  const event = structuredClone(EVENTS[version - 1]) as { statusUpdate: Json };
  row.event = JSON.stringify({ statusUpdate: { ...event.statusUpdate, metadata } });
}

function append(dump: Run['dump'], event: Json): void {
  const version = dump.events.length + 1;
  dump.events.push({ taskNo: 1, version, event: JSON.stringify(event), commitId: 'late' });
  dump.tasks[0]!.version = version;
}

/** The lease goes in a transaction of its own, before the event that it should have gone with. */
function moveRelease(dump: Run['dump'], txid: string): void {
  const at = dump.audit.findIndex(({ source, op }) => source === 'lease' && op === 'delete');
  const [release] = dump.audit.splice(at, 1);
  dump.audit.splice(
    dump.audit.findIndex((row) => row.txid === '1300'),
    0,
    { ...release!, txid },
  );
}
