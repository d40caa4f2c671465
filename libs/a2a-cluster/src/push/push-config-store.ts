import type { TaskPushNotificationConfig } from '@a2a-js/sdk';

/** A receiver as it is registered. */
export interface PushRegistration {
  /** With its id; the store keeps it as it is. */
  config: TaskPushNotificationConfig;
  /** The protocol version of the call that registered it, which is the one it is told in. */
  wireVersion: string;
}

/** A receiver that is behind its task's log, and this replica's to tell for a while. */
export interface ClaimedPush extends PushRegistration {
  taskNo: number;
  /** The last version that it has taken. */
  deliveredVersion: number;
  /** Failures in a row. */
  attempts: number;
  /** Tells this claim from every other. */
  claim: string;
}

/** Selects the receivers to claim. */
export interface PushClaimRequest {
  limit: number;
  /** How long they stay claimed, in ms. */
  claimMs: number;
  /**
   * Only receivers that have taken their last notification, or only those that have not. Left out: both, those that have
   * taken it first.
   */
  lastNotification?: 'taken' | 'failed';
  /** The receivers that come first: those that were never told anything, or those that were. */
  first: 'new' | 'told';
}

/** Some of a task's receivers. */
export interface PushConfigPage {
  /** Those behind this id; '' for the first ones. */
  afterId: string;
  limit: number;
}

/** The progress of a claimed receiver. */
export interface PushProgress {
  /** Smaller than before only where the database has lost events of the task that the receiver was told. */
  deliveredVersion: number;
  attempts: number;
  /**
   * In how many ms it may be claimed again: the time of the next try, or of a claim that goes on. `Infinity`: never.
   */
  againInMs: number;
  /** Why it is given up. */
  failed?: string;
}

/**
 * Push receivers, beside their tasks. The event log is the outbox: a receiver is a cursor on it, and nothing is written
 * for an event. Provide your own under this class as the token (`extraProviders`) to replace it.
 *
 * What its errors mean to the library: {@link StoreUnavailableError}: a client is told to try again. A delivery that meets
 * any error breaks off, and is taken up again at the next poll.
 */
export abstract class PushConfigStore {
  /**
   * Registers a receiver, which is told what comes after the task's present version. One that is registered already is
   * changed, and told again if it was given up; it goes on where it stands.
   */
  abstract save(taskNo: number, registration: PushRegistration): Promise<void>;

  /** The receivers of a task, in order of their ids: all, or those behind an id, at most `limit`. */
  abstract list(taskNo: number, page?: PushConfigPage): Promise<TaskPushNotificationConfig[]>;

  /** One of them. */
  async find(taskNo: number, configId: string): Promise<TaskPushNotificationConfig | undefined> {
    return (await this.list(taskNo)).find(({ id }) => id === configId);
  }

  /** Removes a receiver; one that is not there is no error. */
  abstract delete(taskNo: number, configId: string): Promise<void>;

  /** Takes receivers that are due and not level with their task: of several callers exactly one gets each. */
  abstract claim(request: PushClaimRequest): Promise<ClaimedPush[]>;

  /**
   * Records where a claimed receiver stands. The claim's new mark; undefined where it is somebody else's by now, or was
   * registered anew: then nothing is recorded, and it is due at once.
   */
  abstract progress(claimed: ClaimedPush, progress: PushProgress): Promise<string | undefined>;
}
