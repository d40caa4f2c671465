import type { Random } from '../random.js';
import { Actor, pause } from './actor.js';
import { type Clients, USERS } from './clients.js';
import type { PushReceivers } from './push-receivers.js';
import { SCENARIOS } from './scenarios.js';

/** Between two things that an actor does, in ms. */
const LEAST_MS = 100;
const MOST_MS = 700;

/** Users who do one thing after the other until they are told to stop. */
export class Workload {
  /** How often each scenario was played to its end. */
  readonly played: Record<string, number> = {};
  private readonly actors: Promise<void>[] = [];
  private stopped = false;

  start(random: Random, clients: Clients, receivers: PushReceivers, actors: number): void {
    for (let at = 0; at < actors; at += 1) {
      const agent = clients.agents[at % clients.agents.length]!;
      const user = USERS[Math.floor(at / clients.agents.length) % USERS.length]!;
      this.actors.push(this.act(new Actor(random.fork(), clients, receivers, agent, user)));
    }
  }

  /** Resolves when what was begun is over, or has hung for so long. */
  async stop(atMostMs: number): Promise<void> {
    this.stopped = true;
    let timer: NodeJS.Timeout | undefined;
    const tired = new Promise<void>((resolve) => (timer = setTimeout(resolve, atMostMs)));
    await Promise.race([Promise.all(this.actors), tired]);
    clearTimeout(timer);
  }

  private async act(actor: Actor): Promise<void> {
    while (!this.stopped) {
      const scenario = actor.random.weighted(SCENARIOS);
      await scenario.play(actor);
      this.played[scenario.name] = (this.played[scenario.name] ?? 0) + 1;
      await pause(actor.random.between(LEAST_MS, MOST_MS));
    }
  }
}
