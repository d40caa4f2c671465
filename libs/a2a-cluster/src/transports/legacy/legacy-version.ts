import type { Request } from 'express';

/** Whether a version is one before 1.0. The protocol says that a call without a version speaks 0.3. */
export const isLegacyVersion = (version: string | undefined): boolean => !version || version.startsWith('0.');

/** Whether a request comes from a client of version 0.3, at a path where both versions are served. */
export const speaksLegacy = (req: Request): boolean => isLegacyVersion(req.header('A2A-Version'));
