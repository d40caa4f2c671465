import type { EventLog } from './event-log.js';
import type { Replica } from './replica.js';
import type { Story } from './story.js';

/** What a step plays on. */
export interface Stage {
  readonly a: Replica;
  readonly b: Replica;
  readonly c: Replica;
  readonly log: EventLog;
  readonly story: Story;
}

/** What a step measured. */
export type Figures = Readonly<Record<string, number | string>>;

/** A step tells its part of the story, checks it, and answers what it measured. */
export type Step = (stage: Stage) => Promise<Figures>;
