import { Injectable } from '@nestjs/common';
import { Heartbeat } from '../leases/heartbeat.js';
import { PushDispatcher } from '../push/push-dispatcher.js';
import { SweepTrigger } from '../recovery/sweep-trigger.js';
import { UnleasedTasksLook } from '../recovery/unleased-tasks.look.js';
import { Poller } from '../streams/poller.js';

/** The loops of a replica. */
@Injectable()
export class ReplicaLoops {
  constructor(
    private readonly poller: Poller,
    private readonly heartbeat: Heartbeat,
    private readonly sweep: SweepTrigger,
    private readonly unleased: UnleasedTasksLook,
    private readonly push: PushDispatcher,
  ) {}

  /** One poll ahead of the others: LISTEN is then under way. */
  firstPoll(): Promise<void> {
    return this.poller.runOnce();
  }

  start(): void {
    this.poller.start();
    this.heartbeat.start();
    this.sweep.start();
    this.unleased.start();
  }

  /** Resolves when they have finished what they are at. */
  async stop(): Promise<void> {
    const loops = [this.sweep, this.poller, this.heartbeat, this.push, this.unleased];
    await Promise.all(loops.map((loop) => loop.stop()));
  }
}
