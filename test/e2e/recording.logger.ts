import type { LoggerService } from '@nestjs/common';

/** Keeps warnings and errors for the test that wants to see them, and writes nothing. */
export class RecordingLogger implements LoggerService {
  readonly warnings: string[] = [];
  readonly errors: string[] = [];

  log(): void {
    // of no interest
  }

  warn(message: unknown): void {
    this.warnings.push(String(message));
  }

  error(message: unknown): void {
    this.errors.push(String(message));
  }

  clear(): void {
    this.warnings.length = 0;
    this.errors.length = 0;
  }
}
