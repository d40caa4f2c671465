import { type RacePoint, RACE_POINTS } from '../../libs/a2a-cluster/src/race-points/race-points.js';
import * as cancels from './cancel.scenarios.js';
import * as push from './push.scenarios.js';
import * as recovery from './recovery.scenarios.js';
import * as shutdown from './shutdown.scenarios.js';
import type { Stage } from './stage.js';
import * as turns from './turn.scenarios.js';

/** Brings the victim to its point, and sees to it that those who live can go on. */
export type Scenario = (stage: Stage) => Promise<void>;

/**
 * What kind of cluster a scenario needs: abandoned turns end FAILED; or are run again; or the victim sweeps so rarely
 * that only clients find what is abandoned.
 */
export type ClusterKind = 'fails' | 'runs again' | 'seldom sweeps';

/** One test: a scenario in which a victim passes the point. */
export interface Case {
  point: RacePoint;
  scenario: Scenario;
  kind: ClusterKind;
}

type Way = [kind: ClusterKind, scenario: Scenario];

/** A point without a scenario does not compile. */
const WAYS: Record<RacePoint, Way[]> = {
  'first-commit.before': [
    ['fails', turns.newTask],
    ['fails', turns.repeatedNewTask],
  ],
  'first-commit.after': [
    ['fails', turns.newTask],
    ['fails', turns.repeatedNewTask],
  ],
  'follow-up.before': [
    ['fails', turns.followUp],
    ['fails', turns.repeatedFollowUp],
  ],
  'follow-up.locked': [['fails', turns.followUp]],
  'follow-up.within': [
    ['fails', turns.followUp],
    ['fails', turns.repeatedFollowUp],
  ],
  'follow-up.after': [
    ['fails', turns.followUp],
    ['fails', turns.repeatedFollowUp],
  ],
  'commit.before': [['fails', turns.midStream]],
  'commit.after': [['runs again', turns.midStream]],
  'ending-commit.before': [['fails', turns.followUp]],
  'ending-commit.after': [['fails', turns.followUp]],
  'fan-out.after': [['fails', turns.midStream]],
  'notify.before': [['fails', turns.followUp]],
  'notify.after': [['fails', turns.followUp]],
  'release.before': [['fails', turns.asksForAuthorization]],
  'release.after': [['fails', turns.asksForAuthorization]],
  'renew.before': [['fails', turns.longTurn]],
  'renew.after': [['fails', turns.longTurn]],
  'sweep-claim.before': [['fails', recovery.abandonedTurn]],
  'sweep-claim.after': [['fails', recovery.abandonedTurn]],
  'claim-on-demand.before': [
    ['seldom sweeps', recovery.foundByFollowUp],
    ['seldom sweeps', recovery.foundByCancel],
  ],
  'claim-on-demand.after': [
    ['seldom sweeps', recovery.foundByFollowUp],
    ['seldom sweeps', recovery.foundByCancel],
  ],
  'recovery-drop.before': [['fails', recovery.abandonedWaiting]],
  'recovery-drop.after': [['fails', recovery.abandonedWaiting]],
  'recovery-end.before': [
    ['fails', recovery.abandonedTurn],
    ['seldom sweeps', recovery.foundByCancel],
  ],
  'recovery-end.after': [['fails', recovery.abandonedTurn]],
  'postpone.before': [['runs again', recovery.abandonedTurn]],
  'postpone.after': [['runs again', recovery.abandonedTurn]],
  'run-begin.before': [['runs again', recovery.abandonedTurn]],
  'run-begin.after': [['runs again', recovery.abandonedTurn]],
  're-execution.before': [['runs again', recovery.abandonedTurn]],
  're-execution.after': [['runs again', recovery.abandonedTurn]],
  'put-back.before': [['fails', recovery.unreadableTask]],
  'put-back.after': [['fails', recovery.unreadableTask]],
  'cancel.before': [['fails', cancels.cancelElsewhere]],
  'cancel-flag.within': [['fails', cancels.cancelElsewhere]],
  'cancel-flag.after': [['fails', cancels.cancelElsewhere]],
  'cancel-turn.within': [['fails', cancels.cancelWaiting]],
  'cancel-turn.after': [['fails', cancels.cancelWaiting]],
  'cancel-heard.before': [['fails', cancels.cancelHeard]],
  'cancel-heard.after': [['runs again', cancels.cancelHeard]],
  'forced-end.before': [['seldom sweeps', cancels.cancelForced]],
  'forced-end.within': [['seldom sweeps', cancels.cancelForced]],
  'forced-end.after': [['seldom sweeps', cancels.cancelForced]],
  'push-register.before': [['fails', push.registersReceiver]],
  'push-register.after': [['fails', push.registersReceiver]],
  'push-claim.before': [['fails', push.looksForReceivers]],
  'push-claim.after': [['fails', push.tellsReceiver]],
  'push-post.before': [['fails', push.tellsReceiver]],
  'push-post.after': [['fails', push.tellsReceiver]],
  'push-record.before': [['fails', push.tellsReceiver]],
  'push-record.after': [['runs again', push.tellsReceiver]],
  'effect-dispatch.before': [
    ['fails', turns.chargeNever],
    ['runs again', turns.chargeIdempotent],
  ],
  'effect-dispatch.after': [
    ['runs again', turns.chargeNever],
    ['runs again', turns.chargeIdempotent],
  ],
  'effect-settle.before': [
    ['runs again', turns.chargeNever],
    ['runs again', turns.chargeIdempotent],
  ],
  'effect-settle.after': [
    ['runs again', turns.chargeNever],
    ['fails', turns.chargeIdempotent],
  ],
  'transaction.before': [['runs again', turns.transfer]],
  'transaction.fenced': [['runs again', turns.transfer]],
  'transaction.within': [['runs again', turns.transfer]],
  'transaction.after': [['runs again', turns.transfer]],
  'shutdown.drain': [['fails', shutdown.shutsDown]],
  'shutdown.abort': [['fails', shutdown.shutsDown]],
  'shutdown.drained': [['fails', shutdown.shutsDown]],
  'shutdown.closed': [['fails', shutdown.shutsDown]],
  'hand-over.before': [['runs again', shutdown.handsOver]],
  'hand-over.after': [['runs again', shutdown.handsOver]],
  'let-go.before': [['fails', shutdown.letsGo]],
  'let-go.after': [['fails', shutdown.letsGo]],
};

/** All of them, or those whose points begin like RACE_POINT, to look into one. */
export const CASES: readonly Case[] = RACE_POINTS.filter((point) =>
  point.startsWith(process.env.RACE_POINT ?? ''),
).flatMap((point) => WAYS[point].map(([kind, scenario]) => ({ point, kind, scenario })));

/** Whether the victim is on its way out when it passes the point, and does not serve afterwards. */
export const endsVictim = ({ scenario }: Case): boolean => Object.values<Scenario>(shutdown).includes(scenario);

/** Name of a case, in titles and reports. */
export const titleOf = ({ point, scenario, kind }: Case): string => `${point} (${scenario.name}, ${kind})`;
