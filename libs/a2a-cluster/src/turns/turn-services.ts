import type { EffectStore } from '../effects/effect-store.js';
import type { TurnTransactions } from '../effects/turn-transactions.js';
import type { Heartbeat } from '../leases/heartbeat.js';
import type { TaskEventStream } from '../streams/task-event-stream.js';
import type { VersionedTaskStore } from '../tasks/task-store.js';
import type { ContextCodec } from '../options/context-codec.js';

/** The services that a turn uses. */
export interface TurnServices {
  readonly tasks: VersionedTaskStore;
  readonly stream: TaskEventStream;
  readonly heartbeat: Heartbeat;
  readonly effects: EffectStore;
  readonly transactions: TurnTransactions;
  readonly contextCodec: ContextCodec;
  /** How long a turn may be silent before its sender is answered, in ms; `Infinity`: for ever. */
  readonly firstEventMs: number;
  /** How long a canceled turn has to clean up before CANCELED is written for it, in ms. */
  readonly cancelTimeoutMs: number;
}

/** The executor of a turn, as its turn calls it. */
export interface CancelableExecutor {
  /** Tells the executor that its turn is canceled. Resolves when it has cleaned up. Never rejects. */
  cancel(): Promise<void>;
}
