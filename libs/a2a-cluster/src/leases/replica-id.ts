import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';

/** Names this replica among all that ever were: host and process for people, the rest so that no boot repeats it. */
export const newReplicaId = (): string => `${hostname()}:${process.pid}:${randomBytes(6).toString('hex')}`;
