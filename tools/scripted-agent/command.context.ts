import type { Turn } from 'nestjs-a2a-cluster';
import type { Ledger } from './ledger/ledger.service.js';
import type { TurnPublisher } from './turn.publisher.js';

/** What a command works with. */
export interface CommandContext {
  readonly turn: Turn;
  readonly publisher: TurnPublisher;
  readonly ledger: Ledger;
  /** Tells the artifacts of one message from those of another; the same when the message is run again. */
  readonly messageId: string;
  /** Set while the turn does not want to hear of a cancel. */
  deaf: boolean;
}
