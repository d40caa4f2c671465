import type { TaskPushNotificationConfig } from '@a2a-js/sdk';
import {
  type ClaimedPush,
  type PushConfigPage,
  PushConfigStore,
  type PushClaimRequest,
  type PushProgress,
  type PushRegistration,
} from '../push/push-config-store.js';

interface Entry extends PushRegistration {
  taskNo: number;
  deliveredVersion: number;
  attempts: number;
  /** When it is due, by this process's clock; also tells one claim from another. */
  dueAt: number;
  claim: number;
  /** The claim under which it was registered anew. */
  overtaken: number | undefined;
  failed: string | undefined;
}

/** Push receivers in the memory of this process: for tests. They belong to the tasks of one in-memory task store. */
export class InMemoryPushConfigStore extends PushConfigStore {
  private readonly entries = new Map<string, Entry>();
  private lastClaim = 0;

  constructor(private readonly versionOf: (taskNo: number) => number) {
    super();
  }

  override save(taskNo: number, registration: PushRegistration): Promise<void> {
    this.register(taskNo, registration, this.versionOf(taskNo));
    return Promise.resolve();
  }

  /** Registers a receiver that is told what comes after a version. */
  register(taskNo: number, { config, wireVersion }: PushRegistration, deliveredVersion: number): void {
    const before = this.entries.get(keyOf(taskNo, config.id));
    const claimed = before?.failed === undefined && Number.isFinite(before?.dueAt) ? before : undefined;
    this.entries.set(keyOf(taskNo, config.id), {
      taskNo,
      config: structuredClone(config),
      wireVersion,
      attempts: 0,
      failed: undefined,
      dueAt: claimed?.dueAt ?? 0,
      claim: ++this.lastClaim,
      overtaken: claimed?.overtaken ?? claimed?.claim,
      deliveredVersion: before?.deliveredVersion ?? deliveredVersion,
    });
  }

  override list(
    taskNo: number,
    { afterId, limit }: PushConfigPage = { afterId: '', limit: Infinity },
  ): Promise<TaskPushNotificationConfig[]> {
    const found = [...this.entries.values()].filter((entry) => entry.taskNo === taskNo && entry.config.id > afterId);
    const configs = found.map(({ config }) => structuredClone(config));
    return Promise.resolve(configs.sort((one, other) => (one.id < other.id ? -1 : 1)).slice(0, limit));
  }

  override delete(taskNo: number, configId: string): Promise<void> {
    this.entries.delete(keyOf(taskNo, configId));
    return Promise.resolve();
  }

  override claim({ limit, claimMs, lastNotification, first }: PushClaimRequest): Promise<ClaimedPush[]> {
    const now = Date.now();
    const lastOf = ({ attempts }: Entry): string => (attempts > 0 ? 'failed' : 'taken');
    const retried = (entry: Entry): number => Number(lastOf(entry) === 'failed');
    const later = ({ dueAt }: Entry): number => Number((dueAt === 0) !== (first === 'new'));
    const due = [...this.entries.values()]
      .filter(({ failed, dueAt }) => failed === undefined && dueAt <= now)
      .filter(({ taskNo, deliveredVersion }) => deliveredVersion < this.versionOf(taskNo))
      .filter((entry) => lastNotification === undefined || lastOf(entry) === lastNotification)
      .sort((a, b) => retried(a) - retried(b) || later(a) - later(b) || a.dueAt - b.dueAt)
      .slice(0, limit);
    for (const entry of due) {
      Object.assign(entry, { dueAt: now + claimMs, claim: ++this.lastClaim, overtaken: undefined });
    }
    return Promise.resolve(due.map((entry) => ({ ...entry, claim: String(entry.claim) })));
  }

  override progress(claimed: ClaimedPush, progress: PushProgress): Promise<string | undefined> {
    const entry = this.entries.get(keyOf(claimed.taskNo, claimed.config.id));
    if (entry && String(entry.overtaken) === claimed.claim) entry.dueAt = 0;
    if (String(entry?.claim) !== claimed.claim) return Promise.resolve(undefined);
    const { deliveredVersion, attempts, againInMs, failed } = progress;
    const claim = ++this.lastClaim;
    Object.assign(entry!, { deliveredVersion, attempts, failed, claim, dueAt: Date.now() + againInMs });
    return Promise.resolve(String(claim));
  }
}

const keyOf = (taskNo: number, configId: string): string => `${taskNo} ${configId}`;
