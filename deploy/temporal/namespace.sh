#!/bin/sh
# The namespace that jobs run in, and the search attributes that the Web UI's views use.
set -eu

until temporal operator cluster health; do sleep 2; done

temporal operator namespace describe --namespace default >/dev/null 2>&1 ||
    temporal operator namespace create --namespace default --retention 720h

# Creating one that exists with the same type is accepted by the server.
for name in GroupageState GroupageHealth GroupageTenant GroupageProvider GroupageModel; do
    temporal operator search-attribute create --namespace default --name "$name" --type Keyword
done
temporal operator search-attribute create --namespace default --name GroupageDeadline --type Datetime
