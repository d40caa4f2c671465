import { Injectable } from '@nestjs/common';
import { LeasedEffectStore } from '../effects/leased-effect-store.js';
import { TurnTransactions } from '../effects/turn-transactions.js';
import { Heartbeat } from '../leases/heartbeat.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { LeasedTaskStore } from '../tasks/leased-task-store.js';
import { TurnExecution } from './turn-execution.js';
import type { TurnServices } from './turn-services.js';
import type { TurnSubject } from './turn-subject.js';
import { ResolvedOptions } from '../options/cluster.options.js';

/** Makes turns, with what they work with. */
@Injectable()
export class TurnFactory {
  private readonly services: TurnServices;

  constructor(
    tasks: LeasedTaskStore,
    stream: TaskEventStream,
    heartbeat: Heartbeat,
    effects: LeasedEffectStore,
    transactions: TurnTransactions,
    { contextCodec, turns }: ResolvedOptions,
  ) {
    const { cancelTimeoutMs, firstEventMs } = turns;
    this.services = { tasks, stream, heartbeat, effects, transactions, contextCodec, cancelTimeoutMs, firstEventMs };
  }

  create(subject: TurnSubject): TurnExecution {
    return new TurnExecution(subject, this.services);
  }
}
