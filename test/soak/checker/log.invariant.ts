import type { Json } from '../recording.js';
import { stateOf } from './fold.js';
import { type History, type TaskHistory } from './history.js';
import { canonical } from './json.js';
import { isTerminal } from './states.js';
import type { Violation } from './violation.js';

/** I4, I5: each log is dense from 1 to the task's version, has one end and nothing after it, and the task agrees with it. */
export function logs({ tasks }: History): Violation[] {
  return [...tasks.values()].flatMap((task) => [...dense(task), ...oneEnd(task), ...agrees(task), ...untouched(task)]);
}

function dense({ row: { taskId, version }, log }: TaskHistory): Violation[] {
  const versions = log.events.map((event) => event.version);
  const isDense = versions.length === version && versions.every((at, index) => at === index + 1);
  if (isDense) return [];
  return [{ invariant: 'I5', taskId, text: `the log holds ${versions.join(' ')}, the task is at version ${version}` }];
}

function oneEnd({ row: { taskId }, log }: TaskHistory): Violation[] {
  const ends = log.events.filter(({ state }) => isTerminal(state));
  const last = log.events.at(-1);
  if (ends.length > 1) {
    const all = ends.map(({ version, state }) => `${state} at ${version}`).join(', ');
    return [{ invariant: 'I4', taskId, text: `the task ended ${ends.length} times: ${all}` }];
  }
  const [end] = ends;
  if (!end || end.version === last?.version) return [];
  return [{ invariant: 'I4', taskId, text: `the task ended at ${end.version}, and events follow to ${last?.version}` }];
}

function agrees({ row, log }: TaskHistory): Violation[] {
  const { taskId, state, snapshot, snapshotVersion } = row;
  const violations: Violation[] = [];
  const logged = stateOf(log.at(Infinity));
  if (logged !== state) {
    violations.push({ invariant: 'I4', taskId, text: `the task is ${state}, by its log it is ${logged}` });
  }
  if (canonical(JSON.parse(snapshot) as Json) !== canonical(log.at(snapshotVersion))) {
    violations.push({ invariant: 'I5', taskId, text: `the snapshot at ${snapshotVersion} is not what the log says` });
  }
  return violations;
}

/** Events are only ever added. */
function untouched({ row: { taskId }, audit }: TaskHistory): Violation[] {
  return audit
    .filter(({ source, op }) => source === 'event' && op !== 'insert')
    .map(({ op, seq }) => ({ invariant: 'I5', taskId, text: `an ${op} of an event of the log (audit ${seq})` }));
}
