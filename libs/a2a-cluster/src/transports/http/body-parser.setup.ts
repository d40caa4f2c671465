import { Injectable } from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost } from '@nestjs/core';
import { ResolvedOptions } from '../../options/cluster.options.js';
import { StaticOptions } from '../../options/static.options.js';
import { a2aBodyParser } from './body-parser.js';
import { globalPrefix } from './transport-endpoints.js';

/** Adds the parser of our paths to the app as soon as it has an adapter, which is before Nest adds its own parser. */
@Injectable()
export class BodyParserSetup {
  constructor(
    host: HttpAdapterHost,
    config: ApplicationConfig,
    { transports }: StaticOptions,
    { legacyCompat, requests }: ResolvedOptions,
  ) {
    host.init$.subscribe(() => {
      if (host.httpAdapter?.getType?.() !== 'express') return; // an application context has none
      host.httpAdapter.use(
        a2aBodyParser(transports, () => globalPrefix(config), legacyCompat.rest, requests.maxValues),
      );
    });
  }
}
