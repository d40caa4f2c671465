import type { ReplicaSettings } from './replica-environment.js';
import type { Step } from './stage.js';
import { cancelElsewhere } from './steps/cancel-elsewhere.step.js';
import { frozenReplica } from './steps/frozen-replica.step.js';
import { frozenTransfer } from './steps/frozen-transfer.step.js';
import { chargeIdempotent, chargeNever, chargeReconcile } from './steps/killed-charge.step.js';
import { killedReplica } from './steps/killed-replica.step.js';
import { killedStream } from './steps/killed-stream.step.js';
import { lethalRequest } from './steps/lethal-request.step.js';
import { oneHistory } from './steps/one-history.step.js';
import { shutdown } from './steps/shutdown.step.js';
import { twoTurns } from './steps/two-turns.step.js';
import { MAX_ATTEMPTS, TIMES } from './times.js';

/** What one run of the demo tells. */
export interface Demo {
  readonly title: string;
  readonly settings: ReplicaSettings;
  /** Told in this order. */
  readonly steps: Readonly<Record<string, Step>>;
}

const CLUSTER: Demo = {
  title: 'three replicas of one agent on one PostgreSQL',
  settings: {},
  steps: { oneHistory, killedReplica, twoTurns, cancelElsewhere, frozenReplica, shutdown },
};

const EFFECTS: Demo = {
  title: `three replicas that run again what a dead one left, up to ${MAX_ATTEMPTS} times in all`,
  settings: {
    A2A_POLICY: 're-execute',
    A2A_MAX_ATTEMPTS: String(MAX_ATTEMPTS),
    A2A_BACKOFF_MS: String(TIMES.backoff),
  },
  steps: { killedStream, chargeNever, chargeIdempotent, chargeReconcile, frozenTransfer, lethalRequest },
};

/** The demo that the command line asks for; undefined where there is none of this name. */
export function demoOf(names: readonly string[]): Demo | undefined {
  if (names.length === 0) return CLUSTER;
  return names.length === 1 && names[0] === 'effects' ? EFFECTS : undefined;
}
