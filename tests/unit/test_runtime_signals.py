"""Stop signals become an exception in the body and never cut a teardown short."""

import os
import signal
import threading

import pytest

from breakeven.runtime.signals import STOPPING, Interrupted, interruptible, shield


def send(signum):
    os.kill(os.getpid(), signum)


@pytest.mark.parametrize("signum", STOPPING)
def test_a_stop_signal_is_an_exception_in_the_job(signum):
    with pytest.raises(Interrupted) as caught, interruptible():
        send(signum)
    assert caught.value.signum == signum
    assert caught.value.exit_code == 128 + signum


def test_it_passes_through_code_that_turns_errors_into_data():
    assert not issubclass(Interrupted, Exception)


def test_signals_during_teardown_wait_until_it_is_done():
    steps = []
    with pytest.raises(Interrupted), shield() as signals:
        try:
            with signals.open():
                send(signal.SIGINT)
        finally:
            send(signal.SIGINT)
            send(signal.SIGTERM)
            steps.append("stopped")
    assert steps == ["stopped"]


def test_a_signal_before_the_body_is_raised_where_the_server_can_be_stopped():
    steps = []
    with pytest.raises(Interrupted), shield() as signals:
        send(signal.SIGTERM)
        steps.append("started")
        try:
            with signals.open():
                steps.append("body")
        finally:
            steps.append("stopped")
    assert steps == ["started", "stopped"]


def test_a_signal_kept_back_is_raised_once_at_the_end():
    with pytest.raises(Interrupted), shield():
        send(signal.SIGHUP)
        send(signal.SIGHUP)


def test_handlers_are_given_back():
    before = [signal.getsignal(signum) for signum in STOPPING]
    with interruptible(), shield():
        pass
    assert [signal.getsignal(signum) for signum in STOPPING] == before


def test_an_ignored_hangup_stays_ignored_as_nohup_asks():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            send(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_thread_that_is_not_the_main_one_is_left_alone():
    failures = []

    def body():
        try:
            with shield() as signals, signals.open():
                pass
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert failures == []
