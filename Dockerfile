# The image of mds: one static binary, no shell, an ordinary user. Not built in CI, which has no container engine.
FROM rust:1.95.0-alpine AS build
RUN apk add --no-cache build-base
WORKDIR /src
COPY . .
RUN cargo build --locked --profile dist --bin mds

FROM scratch
# For engines that are scraped over https; the API server's authority comes with the service account.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/target/dist/mds /mds
USER 65532:65532
ENTRYPOINT ["/mds"]
