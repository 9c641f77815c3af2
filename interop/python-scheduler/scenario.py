"""Every operation of azure-mgmt-scheduler 7.0.0 against a running scheduler.

scenario.py all|lists|errors BASE_URL TARGET_URL [CA_FILE]
"""

import datetime
import os
import sys
import time

from azure.core.credentials import AccessToken
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.mgmt.scheduler import SchedulerManagementClient, models


SECRET = os.environ.get("STEADFAST_TOKEN", "secret")


class StaticToken:
    def __init__(self, token=SECRET):
        self.token = token

    def get_token(self, *scopes, **kwargs):
        return AccessToken(self.token, int(time.time()) + 3600)


class PlainToken(SansIOHTTPPolicy):
    def on_request(self, request):
        request.http_request.headers["Authorization"] = f"Bearer {SECRET}"


def connect(base, ca, token=SECRET):
    if ca:
        return SchedulerManagementClient(
            StaticToken(token), "sub", base_url=base, connection_verify=ca
        )
    return SchedulerManagementClient(
        StaticToken(token), "sub", base_url=base, authentication_policy=PlainToken()
    )


def wait_for(what, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        found = what()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def collections(client):
    made = client.job_collections.create_or_update(
        "rg",
        "jc",
        models.JobCollectionDefinition(
            location="westus",
            tags={"a": "b"},
            properties=models.JobCollectionProperties(
                sku=models.Sku(name=models.SkuDefinition.STANDARD),
                quota=models.JobCollectionQuota(
                    max_job_count=20,
                    max_recurrence=models.JobMaxRecurrence(
                        frequency=models.RecurrenceFrequency.MINUTE, interval=1
                    ),
                ),
            ),
        ),
    )
    assert made.name == "jc" and made.tags == {"a": "b"}, made
    found = client.job_collections.get("rg", "jc")
    assert found.properties.sku.name == models.SkuDefinition.STANDARD
    assert found.properties.state == models.JobCollectionState.ENABLED
    assert found.properties.quota.max_job_count == 20
    assert (
        found.properties.quota.max_recurrence.frequency
        == models.RecurrenceFrequency.MINUTE
    )
    patched = client.job_collections.patch(
        "rg", "jc", models.JobCollectionDefinition(tags={"c": "d"})
    )
    assert patched.tags["c"] == "d" and patched.properties.quota.max_job_count == 20
    assert [c.name for c in client.job_collections.list_by_subscription()] == ["jc"]
    assert [c.name for c in client.job_collections.list_by_resource_group("rg")] == ["jc"]
    assert list(client.job_collections.list_by_resource_group("other")) == []


def definition(target, start=None, recurrence=None):
    return models.JobDefinition(
        properties=models.JobProperties(
            start_time=start,
            action=models.JobAction(
                type=models.JobActionType.HTTP,
                request=models.HttpRequest(
                    uri=target + "/sdk",
                    method="POST",
                    body="hello",
                    headers={"x-own": "1"},
                    authentication=models.BasicAuthentication(
                        username="user", password="geheim"
                    ),
                ),
                retry_policy=models.RetryPolicy(
                    retry_type=models.RetryType.FIXED,
                    retry_interval=datetime.timedelta(days=1, seconds=30),
                    retry_count=2,
                ),
            ),
            recurrence=recurrence,
            state=models.JobState.ENABLED,
        )
    )


def monthly():
    return models.JobRecurrence(
        frequency=models.RecurrenceFrequency.MONTH,
        interval=1,
        schedule=models.JobRecurrenceSchedule(
            hours=[5],
            minutes=[15],
            monthly_occurrences=[
                models.JobRecurrenceScheduleMonthlyOccurrence(
                    day=models.JobScheduleDay.FRIDAY, occurrence=-1
                )
            ],
        ),
    )


def jobs(client, target):
    start = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    made = client.jobs.create_or_update(
        "rg", "jc", "job", definition(target, start, monthly())
    )
    assert made.name == "jc/job", made.name
    found = client.jobs.get("rg", "jc", "job")
    action = found.properties.action
    assert action.type == models.JobActionType.HTTP
    assert action.retry_policy.retry_type == models.RetryType.FIXED
    assert action.retry_policy.retry_interval == datetime.timedelta(days=1, seconds=30)
    assert isinstance(action.request.authentication, models.BasicAuthentication)
    assert action.request.authentication.username == "user"
    assert action.request.authentication.password is None
    occurrence = found.properties.recurrence.schedule.monthly_occurrences[0]
    assert (occurrence.day, occurrence.occurrence) == (models.JobScheduleDay.FRIDAY, -1)
    assert found.properties.recurrence.frequency == models.RecurrenceFrequency.MONTH
    assert found.properties.state == models.JobState.ENABLED
    assert found.properties.status.next_execution_time > start
    # What was read is put back and keeps its secret.
    client.jobs.create_or_update("rg", "jc", "job", found)
    patched = client.jobs.patch(
        "rg",
        "jc",
        "job",
        models.JobDefinition(
            properties=models.JobProperties(state=models.JobState.DISABLED)
        ),
    )
    assert patched.properties.state == models.JobState.DISABLED
    assert patched.properties.status.next_execution_time is None
    # run also works on disabled jobs.
    client.jobs.run("rg", "jc", "job")
    items = wait_for(lambda: list(client.jobs.list_job_history("rg", "jc", "job")))
    item = items[0].properties
    assert item.status == models.JobExecutionStatus.COMPLETED, item.message
    assert item.action_name == models.JobHistoryActionName.MAIN_ACTION
    assert item.repeat_count == 1 and item.retry_count == 0
    assert items[0].name.startswith("jc/job/")
    failed = client.jobs.list_job_history("rg", "jc", "job", filter="status eq Failed")
    assert list(failed) == []


def lists(client, target):
    start = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    for number in range(12):
        client.jobs.create_or_update(
            "rg", "jc", "m%02d" % number, definition(target, start, monthly())
        )
    assert len(list(client.jobs.list("rg", "jc"))) == 13
    five = list(client.jobs.list("rg", "jc", top=5))
    assert len(five) == 5, len(five)
    assert [j.name for j in client.jobs.list("rg", "jc", top=2, skip=1)] == [
        "jc/m00",
        "jc/m01",
    ]
    disabled = list(client.jobs.list("rg", "jc", filter="state eq Disabled"))
    assert [j.name for j in disabled] == ["jc/job"], disabled
    for top in (0, 101):
        try:
            list(client.jobs.list("rg", "jc", top=top))
            raise AssertionError("$top was not checked")
        except HttpResponseError as error:
            assert error.status_code == 400, error


def errors(client, target):
    try:
        client.jobs.get("rg", "jc", "absent")
        raise AssertionError("it is not there")
    except ResourceNotFoundError as error:
        assert error.error.code == "ResourceNotFound", error
    bad = definition(target)
    bad.properties.recurrence = models.JobRecurrence(
        frequency=models.RecurrenceFrequency.DAY, interval=1000
    )
    try:
        client.jobs.create_or_update("rg", "jc", "bad", bad)
        raise AssertionError("the interval is too long")
    except HttpResponseError as error:
        assert error.status_code == 400
        assert error.error.code == "BadRequest", error
        assert error.error.target == "properties.recurrence.interval", error
    once = definition(target)
    client.jobs.create_or_update("rg", "jc", "once", once)
    wait_for(
        lambda: client.jobs.get("rg", "jc", "once").properties.state
        == models.JobState.COMPLETED
    )
    try:
        client.jobs.patch("rg", "jc", "once", once)
        raise AssertionError("the job has come to its end")
    except ResourceExistsError as error:
        assert error.error.code == "ConflictError", error


def sweeps(client):
    client.job_collections.begin_disable("rg", "jc").result()
    states = {j.properties.state for j in client.jobs.list("rg", "jc")}
    assert states == {models.JobState.DISABLED, models.JobState.COMPLETED}, states
    found = client.job_collections.get("rg", "jc")
    assert found.properties.state == models.JobCollectionState.DISABLED
    client.job_collections.begin_enable("rg", "jc").result()
    assert client.jobs.get("rg", "jc", "job").properties.state == models.JobState.ENABLED
    client.jobs.delete("rg", "jc", "job")
    try:
        client.jobs.delete("rg", "jc", "job")
        raise AssertionError("it is gone")
    except HttpResponseError as error:
        assert error.status_code == 404, error
    client.job_collections.begin_delete("rg", "jc").result()
    assert list(client.job_collections.list_by_subscription()) == []


def denied(base, ca):
    try:
        connect(base, ca, "wrong").job_collections.get("rg", "jc")
        raise AssertionError("a wrong token was let in")
    except ClientAuthenticationError as error:
        assert error.error.code == "AuthenticationFailed", error


def main():
    part, base, target = sys.argv[1:4]
    ca = sys.argv[4] if len(sys.argv) > 4 else None
    client = connect(base, ca)
    collections(client)
    if part == "errors":
        errors(client, target)
    else:
        jobs(client, target)
        lists(client, target)
    if part == "all":
        errors(client, target)
        if ca:
            denied(base, ca)
        sweeps(client)
    print(part + " works")


main()
