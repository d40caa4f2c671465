import { channel } from 'node:diagnostics_channel';

/** The name of the diagnostics channel. Its messages are the names below. */
export const RACE_POINT_CHANNEL = 'nestjs-a2a-cluster:race-point';

/**
 * Every boundary of what is written, or told: where a process may die or stand still and leave something half done.
 * `before` and `after` a transaction; `within` one, when all is written and nothing committed.
 */
export const RACE_POINTS = [
  // Admission. A new task is stored, with its lease, by the first commit of its turn.
  'first-commit.before',
  'first-commit.after',
  'follow-up.before',
  'follow-up.locked',
  'follow-up.within',
  'follow-up.after',
  // A turn. After a commit the followers here are told, then the other replicas.
  'commit.before',
  'commit.after',
  'ending-commit.before',
  'ending-commit.after',
  'fan-out.after',
  'notify.before',
  'notify.after',
  'release.before',
  'release.after',
  'renew.before',
  'renew.after',
  // Recovery of what another replica has left.
  'sweep-claim.before',
  'sweep-claim.after',
  'claim-on-demand.before',
  'claim-on-demand.after',
  'recovery-drop.before',
  'recovery-drop.after',
  'recovery-end.before',
  'recovery-end.after',
  'postpone.before',
  'postpone.after',
  'run-begin.before',
  'run-begin.after',
  're-execution.before',
  're-execution.after',
  'put-back.before',
  'put-back.after',
  // Cancel: the running turn's lease is flagged, or a turn to cancel is begun, or the end is forced.
  'cancel.before',
  'cancel-flag.within',
  'cancel-flag.after',
  'cancel-turn.within',
  'cancel-turn.after',
  'cancel-heard.before',
  'cancel-heard.after',
  'forced-end.before',
  'forced-end.within',
  'forced-end.after',
  // Push.
  'push-register.before',
  'push-register.after',
  'push-claim.before',
  'push-claim.after',
  'push-post.before',
  'push-post.after',
  'push-record.before',
  'push-record.after',
  // Effects and fenced transactions.
  'effect-dispatch.before',
  'effect-dispatch.after',
  'effect-settle.before',
  'effect-settle.after',
  'transaction.before',
  'transaction.fenced',
  'transaction.within',
  'transaction.after',
  // Shutdown.
  'shutdown.drain',
  'shutdown.abort',
  'shutdown.drained',
  'shutdown.closed',
  'hand-over.before',
  'hand-over.after',
  'let-go.before',
  'let-go.after',
] as const;

/** A name that is not in the list does not compile. */
export type RacePoint = (typeof RACE_POINTS)[number];

const points = channel(RACE_POINT_CHANNEL);

/** Says that the process is here, to whoever listens in this process: to nobody, but for tests. */
export function racePoint(point: RacePoint): void {
  if (points.hasSubscribers) points.publish(point);
}
