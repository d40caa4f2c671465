import type { EffectStore } from '../effects/effect-store.js';
import type { TurnTransactions } from '../effects/turn-transactions.js';
import type { Heartbeat } from '../leases/heartbeat.js';
import type { TaskEventStream } from '../streams/task-event-stream.js';
import type { VersionedTaskStore } from '../tasks/task-store.js';
import { TurnExecution } from './turn-execution.js';
import type { TurnServices } from './turn-services.js';
import type { TurnSubject } from './turn-subject.js';

/** Makes turns, with what they work with. */
export class TurnFactory {
  private readonly services: TurnServices;

  constructor(
    tasks: VersionedTaskStore,
    stream: TaskEventStream,
    /** None where leases are off. */
    heartbeat: Heartbeat | undefined,
    effects: EffectStore,
    /** None where the leases are kept in another place than the app's database. */
    transactions: TurnTransactions | undefined,
    options: Pick<TurnServices, 'contextCodec' | 'retryMs' | 'cancelTimeoutMs'>,
  ) {
    const { contextCodec, retryMs, cancelTimeoutMs } = options;
    this.services = { tasks, stream, heartbeat, effects, transactions, contextCodec, retryMs, cancelTimeoutMs };
  }

  create(subject: TurnSubject): TurnExecution {
    return new TurnExecution(subject, this.services);
  }
}
