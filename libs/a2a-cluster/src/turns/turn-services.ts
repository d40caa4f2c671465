import type { EffectStore } from '../effects/effect-store.js';
import type { TurnTransactions } from '../effects/turn-transactions.js';
import type { Heartbeat } from '../leases/heartbeat.js';
import type { TaskEventStream } from '../streams/task-event-stream.js';
import type { VersionedTaskStore } from '../tasks/task-store.js';
import type { ContextCodec } from '../options/context-codec.js';

/** What a turn works with. */
export interface TurnServices {
  readonly tasks: VersionedTaskStore;
  readonly stream: TaskEventStream;
  /** None where leases are off. */
  readonly heartbeat: Heartbeat | undefined;
  readonly effects: EffectStore;
  /** None where the leases are kept in another place than the app's database. */
  readonly transactions: TurnTransactions | undefined;
  readonly contextCodec: ContextCodec;
  /** For how long a write of a turn is tried again through trouble with the database, in ms. */
  readonly retryMs: number;
  /** How long a canceled turn has to clean up before CANCELED is written for it, in ms. */
  readonly cancelTimeoutMs: number;
}

/** The executor of a turn, as its turn calls it. */
export interface CancelableExecutor {
  /** Tells the executor that its turn is canceled. Resolves when it has cleaned up. Never rejects. */
  cancel(): Promise<void>;
}
